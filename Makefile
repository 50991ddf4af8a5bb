# shadowlsp. `make build` needs Go alone; everything else first lets
# scripts/setup put the pinned tools it needs into .tools/.

.PHONY: build setup test conformance coverage commands oracle demo bench bench-run bench-fs fuzz lint clean
.DEFAULT_GOAL := build

# Tests and demos find the pinned tools before any that the machine has.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# The race detector needs cgo and a C compiler; without them tests run plain.
RACE = $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v "$$(go env CC)" >/dev/null && echo -race)
FUZZTIME ?= 5m

build:
	CGO_ENABLED=0 go build -trimpath -o bin/shadowlsp ./cmd/shadowlsp

setup:
	@scripts/setup

# SHADOWLSP_CI=1 turns skips of what this machine could run into failures
# (integration/need). The last lines are go test's own.
test:
	@scripts/setup
	go test $(RACE) -timeout 20m ./...

# Everything that integration/conformance has: real programs, long random runs,
# fuse-overlayfs beside ours where it is installed. As root.
conformance:
	@scripts/setup system gopls xtools nvim
	SHADOWLSP_CONFORMANCE=full go test -v -timeout 30m ./integration/conformance

# Lints beside those of fresh servers on real copies, as long as it takes.
# ORACLE='-server gopls -steps 200 -seeds 3' chooses; -h lists the flags.
oracle: build
	@scripts/setup
	@go run ./integration/oracle -shadowlsp bin/shadowlsp $(ORACLE)

# 50 agents, 2,000 questions, cancellations, disconnects and killed servers: no
# agent may ever read a name that another has made. And 1,000 branches that are
# made and dropped leave nothing behind.
leaks:
	@scripts/setup system gopls
	SHADOWLSP_LEAKS=full go test -v -timeout 30m -run 'TestNoNameLeaks|TestBranchesLeaveNothingBehind' ./integration/daemon

# Everything that a server can be asked, at every position of small projects, beside
# the bare server.
coverage:
	@scripts/setup
	SHADOWLSP_COVERAGE=full go test -v -timeout 60m ./integration/coverage

demo: build
	@scripts/setup system gopls xmod nvim node
	@go run ./integration/demo -shadowlsp bin/shadowlsp

# BENCH='userlane -n 5000' chooses one and its flags; BENCH=person is how agents at
# work look to the person, and long.
bench: build
	@scripts/setup system gopls xmod xtools
	@go run ./integration/bench -shadowlsp bin/shadowlsp $(BENCH)

# Hundreds of branches on one gopls, every answer compared with a fresh one, and
# what people do today beside it. BRANCHES='-branches 20 -files 10' is a quick one.
bench-branches: build
	@scripts/setup system gopls xtools
	@go run ./integration/bench -shadowlsp bin/shadowlsp branches $(BRANCHES)

# A hundred commands in a hundred branches at once, a half of them killed.
commands: build
	@scripts/setup system gopls
	@SHADOWLSP_TEST_COMMANDS=100 SHADOWLSP_TEST_RUN=TestManyAndKilled go test -count=1 -v -run 'TestManyAndKilled|TestAsAnOrdinaryUser' ./integration/commands

# Test suites in a branch beside native ones. RUNS='-rounds 5 -suites go' sets flags.
bench-run: build
	@scripts/setup system gopls xtools crates
	@go run ./integration/bench -shadowlsp bin/shadowlsp runs $(RUNS)

# The shadow folder beside other file systems, as root. BENCHFS='-rounds 3' sets flags.
bench-fs:
	@scripts/setup system xtools fspeers node
	@go run ./integration/bench/fs $(BENCHFS)

# Each fuzz target in turn, FUZZTIME each.
fuzz:
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

lint:
	@scripts/setup system staticcheck
	@scripts/lint

clean:
	rm -rf bin .tools

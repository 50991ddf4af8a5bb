package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/need"
)

// outsideSh runs a script in the base, outside.
func (s *stage) outsideSh(script string) string {
	s.t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir = s.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("outside: %s\n%s%v", script, out, err)
	}
	return string(out)
}

const gitID = "git -c user.name=t -c user.email=t@example.org "

func TestGoBuild(t *testing.T) {
	need.Tool(t, "go")
	s := newStage(t, map[string]string{
		"go.mod":    "module example.org/small\n\ngo 1.21\n",
		"main.go":   "package main\n\nimport \"example.org/small/word\"\n\nfunc main() { println(word.Word) }\n",
		"word/w.go": "package word\n\nconst Word = \"base\"\n",
	})
	before := fingerprint(t, s.root)
	other := s.create("other")
	s.agent(other, "word/w.go", "package word\n\nconst Word = \"other\"\n")
	s.agent(other, "word/more.go", "package word\n\nvar _ = 1\n")
	broken := s.create("broken")
	s.agent(broken, "word/w.go", "package word\n\nconst Wort = \"broken\"\n")
	const build = `export GOTOOLCHAIN=local GOFLAGS=-mod=mod; go build -o prog . && ./prog && go vet ./... && go list ./...`
	for range 2 {
		if out := s.eye.sh(build); out != "base\nexample.org/small\nexample.org/small/word\n" {
			t.Errorf("base: %s", out)
		}
		s.switchTo(other)
		if out := s.eye.sh(build); out != "other\nexample.org/small\nexample.org/small/word\n" {
			t.Errorf("other: %s", out)
		}
		s.switchTo(broken)
		if out, err := s.eye.try("sh", build); err == nil || !strings.Contains(out, "undefined: word.Word") {
			t.Errorf("broken: %v %s", err, out)
		}
		s.switchTo(s.branch)
	}
	if after := fingerprint(t, s.root); after != before {
		t.Error("the base has changed")
	}
	for _, b := range []string{"main", "other"} {
		branch, err := s.store.Branch(b)
		must(t, err)
		if _, err := branch.Lookup("prog"); err != nil {
			t.Error(b, err)
		}
	}
}

func TestGopls(t *testing.T) {
	gopls := need.Tool(t, "gopls")
	s := newStage(t, map[string]string{
		"go.mod":    "module example.org/small\n\ngo 1.21\n",
		"main.go":   "package main\n\nimport \"example.org/small/word\"\n\nfunc main() { println(word.Word) }\n",
		"word/w.go": "package word\n\nconst Word = \"base\"\n",
	})
	broken := s.create("broken")
	s.agent(broken, "word/w.go", "package word\n\nconst Wort = \"broken\"\n")
	check := "GOTOOLCHAIN=local " + gopls + " check main.go 2>&1"
	for range 2 {
		if out := s.eye.sh(check); out != "" {
			t.Errorf("base: %s", out)
		}
		s.switchTo(broken)
		if out := s.eye.sh(check); !strings.Contains(out, "undefined: word.Word") {
			t.Errorf("broken: %s", out)
		}
		s.switchTo(s.branch)
	}
}

func TestGit(t *testing.T) {
	need.Tool(t, "git")
	s := newStage(t, map[string]string{"a.txt": "one\n", "dir/b.txt": "two\n"})
	s.outsideSh("git init -q . && git add . && " + gitID + "commit -qm first")
	s.sync()
	if out := s.eye.sh("git status --porcelain"); out != "" {
		t.Errorf("a clean tree: %s", out)
	}
	if !ordinary() {
		// The index is believed: nothing has other times or numbers in here.
		if out := s.eye.sh("git diff-files; git ls-files --debug a.txt | grep -c ctime"); out != "1\n" {
			t.Errorf("the index is stale: %s", out)
		}
	}
	s.agent(s.branch, "a.txt", "changed\n")
	s.agent(s.branch, "new.txt", "new\n")
	s.settle()
	if out := s.eye.sh("git status --porcelain"); out != " M a.txt\n?? new.txt\n" {
		t.Errorf("after edits: %q", out)
	}
	out := s.eye.sh("git checkout -q -b work && git add -A && " + gitID + "commit -qm work && git status --porcelain && git log --format=%s && git gc -q && git fsck && git stash list && git checkout -q -")
	if out != "work\nfirst\n" {
		t.Errorf("in the view: %q", out)
	}
	if out := s.eye.sh("git status --porcelain; cat a.txt; ls"); out != "one\na.txt\ndir\n" {
		t.Errorf("back: %q", out)
	}
	if out := s.outsideSh("git status --porcelain --untracked-files=all; git branch --list work"); out != "" {
		t.Errorf("outside: %s", out)
	}
}

// The index of the view's own git is an override as soon as a status refreshes
// it; here it must stay the person's.
func TestCheckoutOutside(t *testing.T) {
	need.Tool(t, "git")
	s := newStage(t, map[string]string{"a.txt": "one\n", "dir/b.txt": "two\n", "old/x/y": "z"})
	s.outsideSh("git init -q . && git add . && " + gitID + "commit -qm first && git checkout -q -b other && mkdir new && echo three > new/c.txt && git rm -qr dir/b.txt old && echo file > old && git add . && " + gitID + "commit -qm other && git checkout -q -")
	s.sync()
	for range 10 {
		if out := s.eye.sh("cat dir/b.txt old/x/y; ! ls new 2>/dev/null; git --no-optional-locks status --porcelain"); out != "two\nz" {
			t.Fatalf("on the first: %q", out)
		}
		s.outsideSh("git checkout -q other")
		s.sync()
		if out := s.eye.sh("! ls dir 2>/dev/null; cat old new/c.txt; git --no-optional-locks status --porcelain"); out != "file\nthree\n" {
			t.Fatalf("on the other: %q", out)
		}
		s.outsideSh("git checkout -q -")
		s.sync()
	}
}

func TestBaseIsUntouchedByGit(t *testing.T) {
	need.Tool(t, "git")
	s := newStage(t, map[string]string{"a.txt": "one\n", "dir/b.txt": "two\n"})
	s.outsideSh("git init -q . && git add . && " + gitID + "commit -qm first")
	s.sync()
	before := fingerprint(t, s.root)
	s.eye.sh("echo x >> a.txt; git mv dir/b.txt dir/moved.txt; " + gitID + "commit -aqm in; git gc -q --prune=now; git reset -q --hard HEAD~1; git clean -fdq; git status --porcelain")
	if fingerprint(t, s.root) != before {
		t.Error("the base has changed")
	}
}

func TestOutsideStaysOutside(t *testing.T) {
	s := newStage(t, someFiles)
	s.eye.do("write", "inside.txt", "x")
	if _, err := os.Stat(filepath.Join(s.root, "inside.txt")); err == nil {
		t.Error("a file of the view is seen outside")
	}
}

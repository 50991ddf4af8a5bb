package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// The names of what has been proven.
const (
	rustPullOnly = "pull"
	rustChecked  = "pull+check"
)

// wantsChecks says whether the person wants cargo check's diagnostics.
func (r *rustBarrier) wantsChecks() bool {
	set, ok := r.host.Setting("checkOnSave")
	if _, object := members(set); object {
		set, ok = r.host.Setting("checkOnSave", "enable")
	}
	return !ok || string(set) != "false"
}

// check returns when cargo has checked the present state, unless that is known.
// A check that was cancelled is run again.
func (r *rustBarrier) check(ctx context.Context) (name string, err error) {
	if !r.wantsChecks() {
		return rustPullOnly, nil
	}
	for range maxRustRounds {
		var known, quiescent bool
		r.watch.view(func() { known, quiescent = r.checked == r.modified, r.status.Quiescent })
		if known {
			return rustChecked, nil
		}
		if quiescent {
			err = r.checkOnce(ctx)
		} else {
			_, err = r.settle(ctx)
		}
		if err != nil {
			return "", err
		}
	}
	return "", errors.New("its checks are cancelled again and again")
}

func (r *rustBarrier) checkOnce(ctx context.Context) error {
	workspaces, err := r.countWorkspaces(ctx)
	if err != nil {
		return err
	}
	if workspaces == 0 {
		return kinded(LoadFailed, errors.New("it has no cargo workspace, so nothing is checked"))
	}
	// An earlier one that somebody gave up must be over: its end would be taken
	// for ours.
	if err := r.await(ctx, func() (bool, error) { return !r.checking(), nil }); err != nil {
		return err
	}
	var (
		modified, busy, statuses uint64
		begun                    = map[string]uint64{}
	)
	r.watch.view(func() {
		modified, busy, statuses = r.modified, r.busy, r.statuses
		for token, c := range r.checks {
			begun[token] = c.begun
		}
	})
	if err := r.host.Notify(ctx, "rust-analyzer/runFlycheck", map[string]any{"textDocument": nil}); err != nil {
		return err
	}
	started, cancel := context.WithTimeoutCause(ctx, rustCheckStart, fmt.Errorf("no check has begun within %v", rustCheckStart))
	defer cancel()
	err = r.await(started, func() (bool, error) {
		if r.statuses != statuses && strings.Contains(r.status.Message, "cargo check failed to start") {
			return false, kinded(LoadFailed, errors.New(r.status.Message))
		}
		return r.since(begun) >= workspaces || r.busy != busy, nil
	})
	if err == nil {
		err = r.await(ctx, func() (bool, error) { return !r.checking(), nil })
	}
	if err != nil {
		// Nobody waits for it any more, but the end of the turn does. (It may
		// come too late, or for nothing; either is well.)
		_ = r.host.Notify(context.WithoutCancel(ctx), "rust-analyzer/cancelFlycheck", nil)
		return err
	}
	// The turn of the end is over, and the status that cancelled it is there; then
	// what that turn has had published (see 6).
	if err := errors.Join(roundTrip(ctx, r.host), r.publishes(ctx)); err != nil {
		return err
	}
	r.watch.update(func() {
		if r.busy == busy && r.since(begun) >= workspaces {
			r.checked = modified
		}
	})
	return nil
}

// publishes returns when its worker has published what it was given until now: it
// answers this question, which all servers know, behind that.
func (r *rustBarrier) publishes(ctx context.Context) error {
	_, err := r.host.Call(ctx, "rust-analyzer/viewFileText", map[string]any{"uri": rustProbe})
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return nil // a file that it does not have
	}
	return err
}

// since counts the workspaces whose check has begun since.
func (r *rustBarrier) since(begun map[string]uint64) (n int) {
	for token, c := range r.checks {
		if c.begun > begun[token] {
			n++
		}
	}
	return n
}

var rustWorkspaces = regexp.MustCompile(`packages across (\d+) workspace`)

// countWorkspaces asks how many checks run at a time: one per workspace.
func (r *rustBarrier) countWorkspaces(ctx context.Context) (n int, err error) {
	var (
		busy  uint64
		known bool
	)
	r.watch.view(func() { busy, known, n = r.busy, r.busy == r.workspacesAt, r.workspaces })
	if known {
		return n, nil
	}
	n, err = r.askWorkspaces(ctx)
	if err == nil {
		r.watch.update(func() { r.workspaces, r.workspacesAt = n, busy })
	}
	return n, err
}

func (r *rustBarrier) askWorkspaces(ctx context.Context) (int, error) {
	for {
		answer, err := r.host.Call(ctx, "rust-analyzer/analyzerStatus", map[string]any{})
		if again(err) {
			continue
		}
		if e := (*wire.Error)(nil); errors.As(err, &e) {
			return 1, nil // a release without it; one workspace is the rule
		}
		if err != nil {
			return 0, err
		}
		found := rustWorkspaces.FindSubmatch(answer)
		if found == nil {
			return 0, nil
		}
		return strconv.Atoi(string(found[1]))
	}
}

// items are the diagnostics of the documents: what is pulled, and behind it what
// cargo's check has published. Without uris: those of the open documents and of
// all that the check speaks of; a document has the same ones however it is asked for.
func (r *rustBarrier) items(ctx context.Context, uris []string) (map[string]Item, error) {
	table := r.host.Table()
	items := make(map[string]Item, len(uris))
	if len(uris) == 0 {
		wanted := map[string]bool{}
		for uri, p := range table {
			if len(p.Diagnostics) > len("[]") {
				wanted[uri] = true
			}
		}
		for _, d := range r.host.Documents() {
			wanted[docuri.Canonical(d.URI)] = true
		}
		uris = slices.Collect(maps.Keys(wanted))
	}
	for _, uri := range uris {
		item, err := r.item(ctx, uri)
		if err != nil {
			return nil, err
		}
		if p, ok := table[uri]; ok {
			if item.Diagnostics, err = joined(item.Diagnostics, p.Diagnostics); err != nil {
				return nil, err
			}
		}
		items[uri] = item
	}
	return items, nil
}

// item is what a document is pulled for; an earlier answer for the same state
// counts.
func (r *rustBarrier) item(ctx context.Context, uri string) (Item, error) {
	var (
		known json.RawMessage
		at    uint64
	)
	r.watch.update(func() {
		at = r.modified + r.busy
		if at != r.pulledAt {
			clear(r.pulled)
			r.pulledAt = at
		}
		known = r.pulled[uri]
	})
	if known != nil {
		return Item{Diagnostics: known}, nil
	}
	if !strings.HasSuffix(uri, ".rs") {
		return Item{Diagnostics: json.RawMessage("[]")}, nil // it would be read as Rust
	}
	items, err := pull(ctx, r.host, uri, nil)
	if e := (*wire.Error)(nil); errors.As(err, &e) && ctx.Err() == nil {
		return r.missing(uri, err)
	}
	if err != nil {
		return Item{}, err
	}
	r.watch.update(func() {
		if at == r.pulledAt {
			r.pulled[uri] = items
		}
	})
	return Item{Diagnostics: items}, nil
}

// missing is what a pull of a document says that the server does not have.
func (r *rustBarrier) missing(uri string, err error) (Item, error) {
	var deleted bool
	r.watch.view(func() { deleted = r.deleted[uri] })
	if deleted {
		return Item{Diagnostics: json.RawMessage("[]")}, nil
	}
	return Item{}, kinded(Unsupported, fmt.Errorf("%s is not among its files: %w", uri, err))
}

package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"shadowlsp/lsp/wire"
)

const (
	// maxRustRounds bounds how often one Final starts over because the server
	// loads something again. An edit of Cargo.toml costs three rounds at most
	// (manifest, build scripts, macros); more is something else that modifies it.
	maxRustRounds = 8
	// rustCheckStart bounds the time between our request for a check and its
	// begin: 50 ms of debouncing and the start of a process.
	rustCheckStart = 20 * time.Second
)

// Ready implements Barrier: it has loaded once. After that everything it is told
// keeps its order, whatever it does meanwhile.
func (r *rustBarrier) Ready(ctx context.Context) error {
	var loaded bool
	r.watch.view(func() { loaded = r.loaded })
	if loaded {
		return nil
	}
	return r.error("ready", r.load(ctx))
}

func (r *rustBarrier) load(ctx context.Context) error {
	// The first turn of its loop tells that it loads (see 1).
	if err := errors.Join(roundTrip(ctx, r.host), roundTrip(ctx, r.host)); err != nil {
		return err
	}
	return r.await(ctx, func() (bool, error) {
		if r.statuses == 0 {
			return false, kinded(Unsupported, errors.New("it does not tell its status: when it has loaded cannot be known"))
		}
		r.loaded = r.loaded || r.status.Quiescent
		return r.loaded, nil
	})
}

// Idle implements Barrier.
func (r *rustBarrier) Idle(ctx context.Context) error {
	return r.error("idle", r.await(ctx, func() (bool, error) {
		return !r.checking() && (r.status.Quiescent || r.statuses == 0), nil
	}))
}

// Final implements Barrier.
func (r *rustBarrier) Final(ctx context.Context, uris []string) (Result, error) {
	result, err := r.final(ctx, uris)
	return result, r.error("final", err)
}

func (r *rustBarrier) final(ctx context.Context, uris []string) (Result, error) {
	if err := r.Ready(ctx); err != nil {
		return Result{}, err
	}
	for range maxRustRounds {
		before, err := r.settle(ctx)
		if err != nil {
			return Result{}, err
		}
		name, err := r.check(ctx)
		if err != nil {
			return Result{}, err
		}
		items, err := r.items(ctx, uris)
		if err != nil {
			return Result{}, err
		}
		if err := roundTrip(ctx, r.host); err != nil {
			return Result{}, err
		}
		var same bool
		var status rustStatus
		r.watch.view(func() {
			same, status = r.busy == before && r.status.Quiescent && !r.rebuilds(), r.status
		})
		if same {
			return rustResult(name, items, r.host.Table(), status)
		}
	}
	return Result{}, errors.New("it keeps loading the workspace")
}

// Settle implements Settler. See 2: what comes from the disk comes late.
func (r *rustBarrier) Settle(ctx context.Context) error {
	var known bool
	r.watch.view(func() {
		known = r.loaded && r.arrived == r.files && r.configuring == 0 && r.status.Quiescent && !r.rebuilds()
	})
	if known {
		return nil
	}
	if err := r.Ready(ctx); err != nil {
		return err
	}
	_, err := r.settle(ctx)
	return r.error("settle", err)
}

// settle returns when everything that was sent has arrived and all that it
// causes has been loaded, and how often it had been busy until then.
func (r *rustBarrier) settle(ctx context.Context) (busy uint64, err error) {
	for range maxRustRounds {
		if err := r.await(ctx, func() (bool, error) { return r.configuring == 0 && len(r.asked) == 0, nil }); err != nil {
			return 0, err
		}
		if err := r.arrive(ctx); err != nil {
			return 0, err
		}
		var rebuild bool
		r.watch.view(func() { rebuild = r.rebuilds() })
		if rebuild {
			r.watch.update(func() { r.scripts, r.built = false, r.modified })
			// Answered at once; what it begins is told by the status.
			_, err := r.host.Call(ctx, "rust-analyzer/rebuildProcMacros", nil)
			if e := (*wire.Error)(nil); err != nil && !errors.As(err, &e) {
				return 0, err
			}
		}
		if err := errors.Join(roundTrip(ctx, r.host), roundTrip(ctx, r.host)); err != nil {
			return 0, err
		}
		var done bool
		if err := r.await(ctx, func() (bool, error) {
			done = r.arrived == r.files && !r.rebuilds()
			busy = r.busy
			return r.status.Quiescent, nil
		}); err != nil || done {
			return busy, err
		}
	}
	return 0, errors.New("it keeps loading the workspace")
}

// rebuilds says that build scripts or macros are not those of the present state.
func (r *rustBarrier) rebuilds() bool {
	return r.scripts || strings.Contains(r.status.Message, "need to be rebuilt") ||
		r.built != r.modified && strings.Contains(r.status.Message, rustScriptsFailed)
}

// rustScriptsFailed is in the status until they have run again (reload.rs,
// current_status), which the server does not do for an edit that mends them.
const rustScriptsFailed = "Failed to run build scripts"

// rustProbe is the document that proves that the loader is through. See 2.
const rustProbe = "file:///dev/null"

// arrive returns when the loader has read all files that it was told of.
func (r *rustBarrier) arrive(ctx context.Context) error {
	var files, arrived, seen uint64
	r.watch.view(func() { files, arrived, seen = r.files, r.arrived, r.refreshes })
	if files == arrived {
		return nil
	}
	document := map[string]any{"uri": rustProbe}
	open := map[string]any{"uri": rustProbe, "languageId": "plaintext", "version": files, "text": "probe"}
	if err := r.host.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": open}); err != nil {
		return err
	}
	if err := r.host.Notify(ctx, "textDocument/didClose", map[string]any{"textDocument": document}); err != nil {
		return err
	}
	for {
		if err := r.await(ctx, func() (bool, error) {
			if r.refreshes == seen {
				return false, nil
			}
			seen = r.refreshes
			return true, nil
		}); err != nil {
			return err
		}
		text, err := r.host.Call(ctx, "rust-analyzer/viewFileText", document)
		e := (*wire.Error)(nil)
		switch {
		case again(err):
			// Some change has overtaken it, which a refresh will follow, or
			// has: ask again in either case.
			r.watch.update(func() { seen-- })
		case err == nil && string(text) == `""`, errors.As(err, &e):
			r.watch.update(func() { r.arrived = files })
			return nil
		case err != nil:
			return err
		}
	}
}

// rustResult makes the result of what was proven, or the error that there is no
// truth in it. A build script that does not compile has errors, in its own file; one
// that fails has none anywhere, and what depends on it looks clean.
func rustResult(name string, items map[string]Item, table map[string]Published, s rustStatus) (Result, error) {
	message := strings.TrimSpace(s.Message)
	failed := s.Health == "error" || strings.Contains(message, "cargo check failed to start") ||
		strings.Contains(message, "Failed to discover workspace") ||
		strings.Contains(message, rustScriptsFailed) && !anyRustError(items, table)
	if failed {
		return Result{}, kinded(LoadFailed, errors.New(message))
	}
	result := Result{Barrier: name, Items: items}
	if message != "" {
		result.Notes = []string{message}
	}
	return result, nil
}

func anyRustError(items map[string]Item, table map[string]Published) bool {
	for _, item := range items {
		if hasRustError(item.Diagnostics) {
			return true
		}
	}
	for _, p := range table {
		if hasRustError(p.Diagnostics) {
			return true
		}
	}
	return false
}

func hasRustError(diagnostics json.RawMessage) bool {
	var all []struct{ Severity int }
	return json.Unmarshal(diagnostics, &all) == nil &&
		slices.ContainsFunc(all, func(d struct{ Severity int }) bool { return d.Severity == 1 })
}

func (r *rustBarrier) await(ctx context.Context, met func() (bool, error)) error {
	return r.watch.await(ctx, r.host.Done(), met)
}

func (r *rustBarrier) error(op string, err error) error { return wrap("rust-analyzer", op, err) }

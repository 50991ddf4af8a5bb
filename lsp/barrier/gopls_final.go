package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// Final implements Barrier.
func (g *goplsBarrier) Final(ctx context.Context, _ []string) (Result, error) {
	r, err := g.final(ctx)
	return r, g.error("final", err)
}

func (g *goplsBarrier) final(ctx context.Context) (Result, error) {
	renew := g.loadNew
	if g.wantsReload() {
		renew = g.reload
	}
	if err := renew(ctx); err != nil {
		return Result{}, err
	}
	if err := g.settle(ctx); err != nil {
		return Result{}, err
	}
	if g.wantsReload() {
		if err := errors.Join(g.reload(ctx), g.settle(ctx)); err != nil {
			return Result{}, err
		}
	}
	if err := g.listPackages(ctx); err != nil {
		return Result{}, err
	}
	if err := g.probe(ctx); err != nil {
		return Result{}, err
	}
	r := Result{Barrier: "progress"}
	var load string
	g.watch.view(func() {
		load = g.load
		r.Notes = append(r.Notes, g.notes...)
	})
	if load != "" {
		if !g.anyError() {
			return Result{}, kinded(LoadFailed, errors.New(load))
		}
		r.Notes = append(r.Notes, load)
	}
	return r, nil
}

// wantsReload says whether what gopls knows of packages may depend on how it
// came to know it. That is so where packages are broken: which file bears an
// error of go list, and whether it is noticed that another import has mended it,
// depends on what was loaded in which order. A fresh gopls has loaded all at
// once.
func (g *goplsBarrier) wantsReload() bool {
	var shifted, broken bool
	g.watch.view(func() { shifted, broken = g.packages.shifted, g.broken })
	return shifted && (broken || g.anyBroken())
}

// reload has gopls make its views anew, as if it had just been started: it does
// so when an option has changed (server/workspace.go, DidChangeConfiguration;
// cache/session.go, UpdateFolders). The option is one of no consequence. Two
// ways that look cheaper were tried and are not: a change of vendor/modules.txt
// loads everything anew within the views, but then also every package of the
// standard library that was seen, with its tests, by name (0.5 s in the smallest
// module, growing); and a file that appears and disappears in each folder that
// may be concerned leaves errors where a fresh gopls has none.
func (g *goplsBarrier) reload(ctx context.Context) error {
	var turn time.Duration
	g.watch.update(func() {
		g.packages.reloading()
		g.reloads++
		turn = time.Duration(g.reloads % 2)
	})
	return g.host.Reconfigure(ctx, Option{
		Name: "reportAnalysisProgressAfter", Value: Raw((5*time.Second + turn*time.Millisecond).String()),
	})
}

func (g *goplsBarrier) openProbe(ctx context.Context, folder string) error {
	return g.host.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": docuri.FromPath(path.Join(folder, goplsProbe)), "languageId": "go", "version": 1, "text": "package probe\n",
	}})
}

func (g *goplsBarrier) closeProbe(ctx context.Context, folder string) error {
	return g.host.Notify(ctx, "textDocument/didClose", map[string]any{"textDocument": map[string]any{
		"uri": docuri.FromPath(path.Join(folder, goplsProbe)),
	}})
}

// loadNew has gopls load the packages of files that it cannot have loaded, and
// diagnose them.
func (g *goplsBarrier) loadNew(ctx context.Context) error {
	var files []string
	g.watch.view(func() { files = g.packages.unsure() })
	if len(files) == 0 {
		return nil
	}
	// What gopls still has to reload must come first: the load of one file
	// takes its dependencies for reloaded, but has loaded them without tests.
	// This command waits for that (awaitLoaded).
	_, err := g.command(ctx, goplsListPackages, map[string]any{"Files": files[:1]})
	if e := (*wire.Error)(nil); err != nil && !errors.As(err, &e) {
		return err
	}
	var loaded []any
	for _, uri := range files {
		_, err := g.command(ctx, goplsListImports, map[string]any{"URI": uri})
		if e := (*wire.Error)(nil); errors.As(err, &e) {
			continue // no package can be had for it, as for a file in testdata
		}
		if err != nil {
			return err
		}
		loaded = append(loaded, map[string]any{"uri": uri, "type": 2})
	}
	if len(loaded) == 0 {
		return nil
	}
	return g.nudge(ctx, loaded)
}

// nudge has gopls diagnose the views of files that have not changed.
func (g *goplsBarrier) nudge(ctx context.Context, changes []any) error {
	return g.host.Notify(ctx, "workspace/didChangeWatchedFiles", map[string]any{"changes": changes})
}

// listPackages asks which packages are loaded, if that may have changed.
func (g *goplsBarrier) listPackages(ctx context.Context) error {
	var stale bool
	g.watch.view(func() { stale = g.packages.stale })
	if !stale {
		return nil
	}
	answer, err := g.command(ctx, goplsListPackages, map[string]any{"Files": g.host.Folders(), "Recursive": true})
	if e := (*wire.Error)(nil); errors.As(err, &e) {
		return nil // then every file is asked for whenever it is modified
	}
	if err != nil {
		return err
	}
	var all goplsPackages
	if err := json.Unmarshal(answer, &all); err != nil {
		return fmt.Errorf("%s: %w", goplsListPackages, err)
	}
	g.watch.update(func() { g.packages.answered(all) })
	return nil
}

// probe looks for a failed load that nothing tells of: there is no package, and
// no open document with which gopls would show the failure.
func (g *goplsBarrier) probe(ctx context.Context) error {
	folders := g.host.Folders()
	var silent bool
	g.watch.view(func() {
		silent = (len(g.packages.loaded) == 0 || g.load != "") && g.probed != g.modified && !g.hasDocuments()
	})
	if !silent || len(folders) == 0 {
		return nil
	}
	top, ok := docuri.Path(folders[0])
	if !ok {
		return nil
	}
	// What was told before was of another state; if it still holds, gopls tells
	// it again while the probe is open.
	g.watch.update(func() { g.load = "" })
	if err := errors.Join(g.openProbe(ctx, top), g.settle(ctx), g.closeProbe(ctx, top)); err != nil {
		return err
	}
	if err := g.settle(ctx); err != nil {
		return err
	}
	g.watch.update(func() { g.probed = g.modified })
	return g.listPackages(ctx)
}

// command has gopls execute a command.
func (g *goplsBarrier) command(ctx context.Context, name string, argument any) (json.RawMessage, error) {
	params := map[string]any{"command": name}
	if argument != nil {
		params["arguments"] = []any{argument}
	}
	return g.host.Call(ctx, "workspace/executeCommand", params)
}

// anyError says whether any document has a diagnostic that a person would see
// as an error or a warning: then a failed load is not silent.
func (g *goplsBarrier) anyError() bool {
	return g.any(func(d goplsDiagnostic) bool { return d.Severity <= 2 })
}

// anyBroken says whether any document has an error about packages or imports.
func (g *goplsBarrier) anyBroken() bool {
	return g.any(func(d goplsDiagnostic) bool {
		return d.Source == "go list" || strings.HasPrefix(d.Message, "could not import")
	})
}

// goplsDiagnostic is what has to be known of a diagnostic.
type goplsDiagnostic struct {
	Severity int    `json:"severity"`
	Source   string `json:"source"`
	Message  string `json:"message"`
}

// any says whether a published diagnostic is what is looked for.
func (g *goplsBarrier) any(is func(goplsDiagnostic) bool) bool {
	for _, p := range g.host.Table() {
		var list []goplsDiagnostic
		if len(p.Diagnostics) <= len("[]") || json.Unmarshal(p.Diagnostics, &list) != nil {
			continue
		}
		if slices.ContainsFunc(list, is) {
			return true
		}
	}
	return false
}

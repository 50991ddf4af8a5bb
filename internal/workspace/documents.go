package workspace

import (
	"context"
	"errors"

	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"shadowlsp/internal/sandbox"
	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/remap"
	"shadowlsp/overlay"
)

// documentsWay is mode.Documents: a server sees the person's own disk, and of a
// branch only what is open.
type documentsWay struct {
	*scanned
	d    *daemon
	temp string // for servers that cannot use the usual directory
}

func newDocumentsWay(d *daemon) (*documentsWay, error) {
	w := &documentsWay{d: d, temp: filepath.Join(d.cfg.Place.State, "tmp")}
	err := os.RemoveAll(w.temp) // what killed servers have left
	if err == nil {
		err = os.Mkdir(w.temp, 0o700)
	}
	if err == nil {
		w.scanned, err = newScanned(d.root, d.anybody)
	}
	return w, err
}

// Close implements folder.
func (w *documentsWay) Close() error {
	return errors.Join(w.scanned.Close(), os.RemoveAll(w.temp))
}

func (w *documentsWay) start(ctx context.Context, spec sandbox.Spec, p *pool, scratch *branch, log zerolog.Logger) (*sandbox.Process, sight, error) {
	proc, err := w.d.startGuarded(ctx, spec, w.temp, log)
	if err != nil {
		return nil, nil, err
	}
	return proc, documentsSight{root: w.d.root, profile: *p.profile(), scratch: scratch}, nil
}

// startGuarded runs a server with no view over the person's folder, and keeps it
// from writing there as far as the machine can. temp is for its temporary files
// where it cannot use the usual directory.
func (d *daemon) startGuarded(ctx context.Context, spec sandbox.Spec, temp string, log zerolog.Logger) (*sandbox.Process, error) {
	m := d.mode
	spec.NoView, spec.UserNS, spec.NoPIDNamespace, spec.NoNamespaces = true, m.UserNS, m.NoPIDNamespace, m.NoNamespaces
	if m.NoNamespaces {
		// Landlock may keep it from making files right in the usual one.
		spec.Env = append(without(spec.Env, "TMPDIR="), "TMPDIR="+temp)
	}
	proc, err := sandbox.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := proc.Exec(); err != nil {
		proc.Kill()
		proc.Wait()
		return nil, err
	}
	if proc.Guard == sandbox.GuardNone {
		log.Warn().Str("why", proc.Unguarded).Msg("nothing keeps the server from writing the person's folder")
	} else {
		log.Info().Str("guard", string(proc.Guard)).Msg("the server cannot write the person's folder")
	}
	return proc, nil
}

// without returns an environment without the variables that begin so.
func without(env []string, prefix string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, prefix) {
			kept = append(kept, v)
		}
	}
	return kept
}

// documentsSight is a server that sees no branch but by its open documents.
type documentsSight struct {
	root    string
	profile barrier.Profile
	// scratch never holds anything: it is the person's folder.
	scratch *branch
}

func (s documentsSight) disk(*branch) *branch          { return s.scratch }
func (s documentsSight) look(*branch) error            { return nil }
func (s documentsSight) settled(context.Context) error { return nil }
func (s documentsSight) close() error                  { return nil }
func (s documentsSight) paths() *remap.Map             { return nil }
func (s documentsSight) asked(string, bool) bool       { return true } // nobody sees what it reads

// reader says what of a server's files it takes from open documents alone, as
// if they were on its disk.
type reader struct {
	// reads says why a text does not count fully until it is on disk, or "".
	reads func(path, text string) string
	// unsure says why the diagnostics of a document depend on what other
	// documents say on disk, or "".
	unsure func(path string) string
}

// readers are the servers of which that is known, by profile, and proven by
// integration/modes. Any other server may read any other file from the disk: of
// a branch of one file it can be asked about that one.
var readers = map[string]reader{
	"gopls": {reads: goplsReads, unsure: goplsUnsure},
}

// goplsReads: gopls hands its open documents to `go list` as an overlay, new
// files and new packages included. What it runs other programs on is read from
// the disk: go.mod and its kin count when they are saved, and cgo sees files.
func goplsReads(file, text string) string {
	switch {
	case goModFiles[path.Base(file)]:
		return "gopls reads it from the disk"
	case strings.Contains(text, `"C"`):
		return "cgo reads it from the disk"
	}
	return ""
}

var goModFiles = map[string]bool{"go.mod": true, "go.sum": true, "go.work": true, "go.work.sum": true}

// goplsUnsure: `go mod tidy`, whose findings are a go.mod's, sees saved files.
func goplsUnsure(file string) string {
	if goModFiles[path.Base(file)] {
		return "go mod tidy reads the Go files from the disk"
	}
	return ""
}

// lacks implements sight.
func (s documentsSight) lacks(st state, uris []string) error {
	no := func(format string, args ...any) error {
		return &barrier.Error{Op: "final", Server: s.profile.Name, Kind: barrier.Unsupported,
			Err: fmt.Errorf("the servers of this daemon see the person's files and open documents only (mode documents, see `shadowlsp doctor`), and the branch "+format, args...)}
	}
	open := map[string]string{}
	for _, d := range st.documents {
		open[docuri.Canonical(d.URI)] = d.Text
	}
	known, proven := readers[s.profile.Name]
	var only string // the one override of a server that is not known
	for _, o := range st.overrides {
		base, err := s.scratch.over.Lookup(o.Path)
		there := err == nil
		if err != nil && overlay.KindOf(err) != overlay.NotExist && overlay.KindOf(err) != overlay.NotDir {
			return err
		}
		uri := docuri.Canonical(docuri.FromPath(filepath.Join(s.root, o.Path)))
		text, opened := open[uri]
		_, takes := s.profile.Language(o.Path)
		switch {
		case o.Kind == overlay.Deleted:
			return no("deletes %s", o.Path)
		case there && base.IsDir() != (o.Kind == overlay.Dir):
			return no("has something else than the folder at %s", o.Path)
		case o.Kind == overlay.Dir:
			// A new one, or other attributes: what is in it is looked at.
		case o.Kind != overlay.Regular:
			return no("has a link or a special file at %s", o.Path)
		case !takes:
			return no("changes %s, which %s does not take as a document", o.Path, s.profile.Name)
		case !opened:
			return no("changes %s, which is too large or one too many to be opened, or no text", o.Path)
		case proven:
			if why := known.reads(o.Path, text); why != "" {
				return no("changes %s: %s", o.Path, why)
			}
		case !there:
			return no("adds %s, and it is not known whether %s sees new files that are not on the disk", o.Path, s.profile.Name)
		case only != "":
			return no("changes more than one file, and it is not known whether %s sees others than the one it is asked about", s.profile.Name)
		default:
			only = uri
		}
	}
	if only != "" && (s.profile.CheckOnSave || len(uris) != 1 || docuri.Canonical(uris[0]) != only) {
		return no("changes %s, and it is not known whether %s sees that when it is asked about others", only, s.profile.Name)
	}
	for _, uri := range uris {
		if why := s.hazy(st, uri); why != "" {
			return no("changes files: %s", why)
		}
	}
	return nil
}

// hazy implements sight.
func (s documentsSight) hazy(st state, uri string) string {
	known, proven := readers[s.profile.Name]
	file, ok := docuri.Path(uri)
	if !proven || !ok || len(st.overrides) == 0 {
		return ""
	}
	return known.unsure(file)
}

// lost is what an agent is told when it attaches; "" in mode full.
func (d *daemon) lost() string {
	if d.mode.Lost == "" {
		return ""
	}
	return fmt.Sprintf("mode %s: %s. Why: %s. To do: %s", d.mode.Mode, d.mode.Lost, d.mode.Why, d.mode.Remedy)
}

// anybody says whether an agent is there whom a change of the folder concerns.
func (d *daemon) anybody() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions) > 0
}

package overlay

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/sys/unix"
)

// DiffOptions choose what a patch holds.
type DiffOptions struct {
	// Include says whether a path belongs into the patch; nil means all.
	// Paths in a .git directory are never included.
	Include func(path string) bool
	// UTF8 makes a patch that is valid UTF-8, whatever the files hold: text in
	// another encoding is written as binary.
	UTF8 bool
}

// DiffStats say what a patch holds and what it cannot.
type DiffStats struct {
	Files   int
	Skipped []string // fifos, sockets and devices, which git does not know
}

// Diff writes a patch from the base as it is now to the branch, as `git apply`
// takes it: text with three lines of context, binary files as git's own binary
// literals, new and deleted files, renames, modes and symlinks. An empty
// directory is nothing, as in git.
func (b *Branch) Diff(w io.Writer, o DiffOptions) (DiffStats, error) {
	p := patch{options: o}
	list, err := b.changes()
	if err == nil {
		err = p.take(list)
	}
	if err == nil {
		slices.Reverse(p.deleted) // to be read in the order of paths
		p.pairRenames()
		// Deletions first: a directory may stand where a file was, and the reverse.
		for _, f := range append(p.deleted, p.others...) {
			if err = p.file(f); err != nil {
				break
			}
		}
	}
	if err == nil {
		_, err = w.Write(p.out.Bytes())
	}
	return p.stats, b.wrap("diff", "", err)
}

// blob is one side of a patched file: nothing, or what git knows about it.
type blob struct {
	mode string // "" for nothing
	data []byte
	id   string
}

// patched is a file in a patch; from is its old path.
type patched struct {
	from, path string
	old, now   blob
	// source is where the overlay knows the content of a new file to come from.
	source string
	// similarity is how much of a renamed file is the same, in percent.
	similarity int
}

// patch is a patch being made.
type patch struct {
	options         DiffOptions
	deleted, others []*patched
	out             bytes.Buffer
	stats           DiffStats
}

// maxPatch bounds what a patch is made of, in bytes: it is made in memory.
const maxPatch = 128 << 20

// take reads what the changes are about.
func (p *patch) take(list []change) error {
	size := int64(0)
	for _, c := range list {
		if c.leaf() && (p.options.Include == nil || p.options.Include(c.path)) {
			size += c.old.Attr.Size + c.now.Attr.Size
		}
	}
	if size > maxPatch {
		return kindError(TooLarge)
	}
	for _, c := range list {
		if !c.leaf() || p.options.Include != nil && !p.options.Include(c.path) {
			continue
		}
		old, err := blobOf(c.old)
		if err != nil {
			return err
		}
		now, err := blobOf(c.now)
		if err != nil {
			return err
		}
		if !c.removes() && now.mode == "" {
			p.stats.Skipped = append(p.stats.Skipped, c.path)
			continue
		}
		if old.mode == now.mode && old.id == now.id {
			continue
		}
		switch f := (&patched{from: c.path, path: c.path, old: old, now: now}); {
		case c.removes():
			p.deleted = append(p.deleted, f)
		case old.mode != "" && (old.mode == linkMode) != (now.mode == linkMode):
			// One is a link: to git these are two changes.
			p.deleted = append(p.deleted, &patched{from: c.path, path: c.path, old: old, now: blob{id: noID}})
			p.others = append(p.others, &patched{from: c.path, path: c.path, old: blob{id: noID}, now: now})
		default:
			if c.adds() {
				f.source = c.now.cameFrom()
			}
			p.others = append(p.others, f)
		}
	}
	return nil
}

const linkMode = "120000"

func gitMode(mode uint32) string {
	switch {
	case isLnk(mode):
		return linkMode
	case !isReg(mode):
		return ""
	case mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// blobOf reads a side. What neither git nor a patch knows is nothing.
func blobOf(n Node) (blob, error) {
	out := blob{mode: gitMode(n.Attr.Mode), id: noID}
	if out.mode == "" {
		return out, nil
	}
	var err error
	if out.data, err = n.content(); err != nil {
		return out, err
	}
	out.id = contentID(out.data)
	return out, nil
}

// file writes the patch of one file.
func (p *patch) file(f *patched) error {
	p.stats.Files++
	old, now := f.old, f.now
	from, to := quote("a/"+f.from), quote("b/"+f.path)
	fmt.Fprintf(&p.out, "diff --git %s %s\n", from, to)
	mode := ""
	switch {
	case old.mode == "":
		fmt.Fprintf(&p.out, "new file mode %s\n", now.mode)
		from = "/dev/null"
	case now.mode == "":
		fmt.Fprintf(&p.out, "deleted file mode %s\n", old.mode)
		to = "/dev/null"
	case old.mode != now.mode:
		fmt.Fprintf(&p.out, "old mode %s\nnew mode %s\n", old.mode, now.mode)
	default:
		mode = " " + now.mode
	}
	if f.from != f.path {
		fmt.Fprintf(&p.out, "similarity index %d%%\nrename from %s\nrename to %s\n", f.similarity, quote(f.from), quote(f.path))
	}
	if bytes.Equal(old.data, now.data) {
		if len(now.data) == 0 && (old.mode == "" || now.mode == "") {
			fmt.Fprintf(&p.out, "index %s..%s%s\n", old.id, now.id, mode)
		}
		return nil
	}
	fmt.Fprintf(&p.out, "index %s..%s%s\n", old.id, now.id, mode)
	if p.binary(old.data) || p.binary(now.data) {
		p.out.WriteString("GIT binary patch\n")
		if err := writeLiteral(&p.out, now.data); err != nil {
			return err
		}
		return writeLiteral(&p.out, old.data)
	}
	fmt.Fprintf(&p.out, "--- %s\n+++ %s\n", tabbed(from), tabbed(to))
	p.out.Write(hunks(old.data, now.data))
	return nil
}

func (p *patch) binary(data []byte) bool {
	return isBinary(data) || p.options.UTF8 && !utf8.Valid(data)
}

// hunks is the unified difference of two texts, without a header.
func hunks(old, now []byte) []byte {
	text := diff.Diff("a", old, "b", now)
	for range 3 { // its own header
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text
}

// cameFrom is where in the base a file of a branch came from, if it is at another
// path now and the overlay knows: by itself, or with its directory. "": unknown.
func (n Node) cameFrom() string {
	if n.inBase {
		return n.base
	}
	dir, name := split(n.Path)
	parent, err := n.branch.nodeAt(dir)
	if err != nil || parent.base == "" || parent.base == dir {
		return ""
	}
	var st unix.Stat_t
	if from := join(parent.base, name); n.branch.store.base.stat(from, &st) == nil {
		return from
	}
	return ""
}

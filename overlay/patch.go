package overlay

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/sys/unix"
)

// DiffOptions choose what a patch holds.
type DiffOptions struct {
	// Include says whether a path belongs into the patch; nil means all.
	// Paths in a .git directory are never included.
	Include func(path string) bool
}

// DiffStats say what a patch holds and what it cannot.
type DiffStats struct {
	Files   int
	Skipped []string // fifos, sockets and devices, which git does not know
}

// Diff writes a patch from the base as it is now to the branch, as `git apply`
// takes it: text with three lines of context, binary files as git's own binary
// literals, new and deleted files, modes and symlinks. A rename is a deletion
// and a new file; an empty directory is nothing, as in git. Applying a patch to
// the person's folder is a later door beside this one.
func (b *Branch) Diff(w io.Writer, o DiffOptions) (DiffStats, error) {
	p := patch{b: b, include: o.Include}
	// Deletions first: a directory may stand where a file was, and the reverse.
	var changed []override
	err := b.overrides(func(v override) { changed = append(changed, v) })
	for _, v := range changed {
		if err == nil {
			err = p.deletions(v)
		}
	}
	for _, v := range changed {
		if err == nil && v.Kind != Deleted && v.Kind != Dir {
			err = p.override(v)
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
}

// patch is a patch being made.
type patch struct {
	b       *Branch
	include func(path string) bool
	out     bytes.Buffer
	stats   DiffStats
}

func (p *patch) includes(path string) bool {
	for rest := path; rest != ""; {
		var name string
		if name, rest = cutFirst(rest); name == ".git" {
			return false
		}
	}
	return p.include == nil || p.include(path)
}

// deletions writes those of the base's files that v takes away or covers with a
// file or directory of another kind.
func (p *patch) deletions(v override) error {
	var st unix.Stat_t
	if err := p.b.store.base.stat(v.Path, &st); err != nil {
		if k := KindOf(err); k == NotExist || k == NotDir {
			return nil
		}
		return err
	}
	if v.Kind == Deleted || isDir(st.Mode) != (v.Kind == Dir) || isLnk(st.Mode) != (v.Kind == Symlink) {
		return p.deleteTree(v.Path, &st)
	}
	return nil
}

func (p *patch) deleteTree(path string, st *unix.Stat_t) error {
	if !isDir(st.Mode) {
		old, err := p.baseBlob(path, st)
		if err != nil || old.mode == "" {
			return err
		}
		return p.file(path, old, blob{})
	}
	entries, err := p.b.store.base.list(path, nil)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var sub unix.Stat_t
		at := join(path, e.Name)
		if err := p.b.store.base.stat(at, &sub); err != nil {
			return err
		}
		if err := p.deleteTree(at, &sub); err != nil {
			return err
		}
	}
	return nil
}

func (p *patch) override(v override) error {
	if !p.includes(v.Path) {
		return nil
	}
	now, err := p.nodeBlob(v.node)
	if err != nil {
		return err
	}
	if now.mode == "" {
		p.stats.Skipped = append(p.stats.Skipped, v.Path)
		return nil
	}
	var old blob
	var st unix.Stat_t
	if err := p.b.store.base.stat(v.Path, &st); err == nil && isLnk(st.Mode) == (v.Kind == Symlink) {
		if old, err = p.baseBlob(v.Path, &st); err != nil {
			return err
		}
	}
	return p.file(v.Path, old, now)
}

func gitMode(mode uint32) string {
	switch {
	case isLnk(mode):
		return "120000"
	case !isReg(mode):
		return ""
	case mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

func (p *patch) nodeBlob(n Node) (blob, error) {
	var err error
	out := blob{mode: gitMode(n.Attr.Mode)}
	switch out.mode {
	case "120000":
		var target string
		target, err = n.readlink()
		out.data = []byte(target)
	case "":
	default:
		out.data, err = n.read()
	}
	return out, err
}

func (p *patch) baseBlob(path string, st *unix.Stat_t) (blob, error) {
	return p.nodeBlob(Node{Path: path, branch: p.b, base: path, inBase: true, Attr: attrOf(st)})
}

// file writes the patch of one file.
func (p *patch) file(path string, old, now blob) error {
	if !p.includes(path) || old.mode == now.mode && bytes.Equal(old.data, now.data) {
		return nil
	}
	p.stats.Files++
	from, to := quote("a/"+path), quote("b/"+path)
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
	if bytes.Equal(old.data, now.data) {
		if len(now.data) == 0 && (old.mode == "" || now.mode == "") {
			fmt.Fprintf(&p.out, "index %s..%s%s\n", old.id(), now.id(), mode)
		}
		return nil
	}
	fmt.Fprintf(&p.out, "index %s..%s%s\n", old.id(), now.id(), mode)
	if binary(old.data) || binary(now.data) {
		p.out.WriteString("GIT binary patch\n")
		if err := writeLiteral(&p.out, now.data); err != nil {
			return err
		}
		return writeLiteral(&p.out, old.data)
	}
	fmt.Fprintf(&p.out, "--- %s\n+++ %s\n", tabbed(from), tabbed(to))
	text := diff.Diff("a", old.data, "b", now.data)
	for range 3 { // its own header
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	p.out.Write(text)
	return nil
}

// tabbed ends a name with blanks in it as git and patch(1) expect it.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// id is git's name for the content, which it compares before it applies a
// binary patch.
func (b blob) id() string {
	if b.mode == "" {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b.data))
	h.Write(b.data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// binary is git's own test.
func binary(data []byte) bool {
	const look = 8000
	return bytes.IndexByte(data[:min(len(data), look)], 0) >= 0
}

// quote writes a name as git does: as it is, or in double quotes with the bytes
// that are not printable ASCII as octal escapes.
func quote(name string) string {
	plain := true
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			plain = false
		}
	}
	if plain {
		return name
	}
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c == '\n':
			out.WriteString(`\n`)
		case c == '\t':
			out.WriteString(`\t`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&out, `\%03o`, c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// writeLiteral writes a whole content in the format of git's binary patches:
// deflated, in lines of up to 52 bytes, each led by its length and written in
// base 85.
func writeLiteral(w *bytes.Buffer, data []byte) error {
	fmt.Fprintf(w, "literal %d\n", len(data))
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	const perLine = 52
	for rest := packed.Bytes(); len(rest) > 0; {
		line := rest[:min(perLine, len(rest))]
		rest = rest[len(line):]
		if n := len(line); n <= 26 {
			w.WriteByte(byte('A' + n - 1))
		} else {
			w.WriteByte(byte('a' + n - 27))
		}
		writeBase85(w, line)
		w.WriteByte('\n')
	}
	w.WriteByte('\n')
	return nil
}

const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

func writeBase85(w *bytes.Buffer, data []byte) {
	for len(data) > 0 {
		var word uint32
		for i := range 4 {
			word <<= 8
			if i < len(data) {
				word |= uint32(data[i])
			}
		}
		data = data[min(4, len(data)):]
		var digits [5]byte
		for i := 4; i >= 0; i-- {
			digits[i] = base85[word%85]
			word /= 85
		}
		w.Write(digits[:])
	}
}

package overlay

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"strings"
)

// tabbed ends a name with blanks in it as git and patch(1) expect it.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// noID is git's name for no content.
var noID = strings.Repeat("0", 2*sha1.Size)

// contentID is git's name for a content, which it compares before it applies a
// binary patch.
func contentID(data []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// isBinary is git's own test.
func isBinary(data []byte) bool {
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

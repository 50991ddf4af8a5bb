package agent

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"shadowlsp/lsp/wire"
)

func didOpen(uri string, version int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":%q,"languageId":"go","version":%d,"text":%s}}}`, uri, version, encode(text))
}

func didChange(uri string, version int, changes string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":%q,"version":%d},"contentChanges":[%s]}}`, uri, version, changes)
}

func didClose(uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"textDocument/didClose","params":{"textDocument":{"uri":%q}}}`, uri)
}

// at is one change at a range of line and UTF-16 character.
func at(l1, c1, l2, c2 int, text string) string {
	return fmt.Sprintf(`{"range":{"start":{"line":%d,"character":%d},"end":{"line":%d,"character":%d}},"text":%s}`, l1, c1, l2, c2, encode(text))
}

const hover = `{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///a"}}}`

func TestIncrementalChangesInUTF16(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{}, pull)
		c.send(didOpen("file:///a", 1, "x😀y\r\nzwei\r\n"))
		c.send(didChange("file:///a", 2, at(0, 3, 0, 4, "Y")))                            // behind a surrogate pair
		c.send(didChange("file:///a", 3, at(0, 99, 0, 99, "!")))                          // past the end: before the CRLF
		c.send(didChange("file:///a", 4, at(9, 9, 9, 9, "end")))                          // past the last line
		c.send(didChange("file:///a", 5, at(0, 0, 0, 1, "")+","+at(0, 2, 1, 0, "<&>\t"))) // each on the one before
		c.send(didChange("file:///a", 5, `{"text":"whole"},`+at(0, 0, 0, 0, "a ")))       // the same version again
		c.send(didChange("file:///a", 6, ``))
		c.send(didOpen("file:///%61", 1, "again"))
		c.send(didClose("file:///%61"))
		c.nothing()
		same(t, f.taken(), []string{
			`open file:///a v1 "x😀y\r\nzwei\r\n"`,
			`change file:///a v2 "x😀Y\r\nzwei\r\n"`,
			`change file:///a v3 "x😀Y!\r\nzwei\r\n"`,
			`change file:///a v4 "x😀Y!\r\nzwei\r\nend"`,
			`change file:///a v5 "😀<&>\tzwei\r\nend"`,
			`change file:///a v5 "a whole"`,
			`change file:///a v6 "a whole"`,
			`change file:///a v1 "again"`,
			`close file:///a`,
		})
		c.close()
	})
}

func TestSecondOpenInAnotherLanguage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{}, pull)
		c.send(didOpen("file:///a", 1, "1"))
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","languageId":"c","version":0,"text":"2"}}}`)
		c.nothing()
		same(t, f.taken(), []string{`open file:///a v1 "1"`, `close file:///a`, `open file:///a v0 "2"`})
		c.close()
	})
}

// An edit that is not taken is told, and what depends on it is not answered
// from another text; everything else goes on.
func TestEditsThatCannotBeTaken(t *testing.T) {
	for name, tc := range map[string]struct{ bad, told string }{
		"a lower version":  {didChange("file:///a", 4, at(0, 0, 0, 0, "x")), "version 4 comes after version 5"},
		"a reversed range": {didChange("file:///a", 6, at(0, 2, 0, 1, "x")), "ends before it begins"},
		"a negative line":  {didChange("file:///a", 6, at(-1, 2, 0, 1, "x")), "malformed"},
		"no array":         {`{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///a","version":6},"contentChanges":{}}}`, "malformed"},
		"no text":          {`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a"}}}`, "needs uri and text"},
		"too much text":    {didChange("file:///a", 6, `{"text":"123456789012345678901"}`), "20 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				c := initialized(t, f, Config{Limits: Limits{TextBytes: 20}}, pull)
				c.send(didOpen("file:///a", 5, "text"))
				c.nothing()
				f.taken()
				c.send(tc.bad)
				c.wantMessage("window/showMessage", tc.told)
				c.send(hover)
				c.wantError("1", wire.CodeRequestFailed, "does not hold file:///a as you have it")
				c.send(`{"jsonrpc":"2.0","id":2,"method":"workspace/diagnostic","params":{"previousResultIds":[]}}`)
				c.wantError("2", wire.CodeRequestFailed, "file:///a")
				c.send(`{"jsonrpc":"2.0","id":2,"method":"shadowlsp/lint","params":{}}`)
				c.wantError("2", wire.CodeRequestFailed, "file:///a")
				c.send(didChange("file:///a", 7, at(0, 0, 0, 0, "x"))) // on a text we do not know
				c.wantMessage("window/showMessage", "")
				c.nothing()
				same(t, f.taken(), nil)
				c.send(didChange("file:///a", 8, `{"text":"whole"},`+at(0, 0, 0, 0, "the ")))
				c.send(hover)
				c.recv()
				same(t, f.taken()[:1], []string{`change file:///a v8 "the whole"`})
				c.close()
			})
		})
	}
}

func TestDocumentsThatAreNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{}, pull)
		for _, bad := range []string{didChange("file:///a", 1, at(0, 0, 0, 0, "x")), didClose("file:///a")} {
			c.send(bad)
			c.wantMessage("window/showMessage", "not open")
		}
		for _, method := range []string{"didOpen", "didChange", "didClose", "didSave"} {
			for _, params := range []string{`{}`, `[]`, `null`, `{"textDocument":{"uri":7}}`, `{"textDocument":{"uri":""}}`} {
				c.send(`{"jsonrpc":"2.0","method":"textDocument/` + method + `","params":` + params + `}`)
				c.wantMessage("window/showMessage", method+": malformed")
			}
		}
		c.send(hover)
		c.recv()
		same(t, f.taken(), []string{"request " + hover})
		c.close()
	})
}

func TestTheBranchRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse error
		f := &fake{edit: func(string, Document) error { return refuse }}
		c := initialized(t, f, Config{}, pull)
		other := `{"jsonrpc":"2.0","id":2,"method":"x","params":{"textDocument":{"uri":"file:///b"}}}`

		// For good: only what names the document.
		refuse = wire.Errorf(wire.CodeInvalidParams, "outside the root")
		c.send(didOpen("file:///a", 1, "1"))
		c.wantMessage("window/showMessage", "outside the root")
		c.send(hover)
		c.wantError("1", wire.CodeRequestFailed, "outside the root")
		c.send(`{"jsonrpc":"2.0","id":3,"method":"textDocument/diagnostic","params":{"textDocument":{"uri":"file:///%61"}}}`)
		c.wantError("3", wire.CodeRequestFailed, "outside the root")
		c.send(other)
		c.recv()
		c.send(didClose("file:///a"))

		// For now: everything, until a later text is taken.
		refuse = nil
		c.send(didOpen("file:///a", 1, "1"))
		c.nothing()
		refuse = errors.New("disk full")
		c.send(didChange("file:///a", 2, at(0, 0, 0, 0, "2")))
		c.wantMessage("window/showMessage", "disk full")
		c.send(other)
		c.wantError("2", wire.CodeRequestFailed, "disk full")
		c.send(`{"jsonrpc":"2.0","method":"textDocument/didSave","params":{"textDocument":{"uri":"file:///a"}}}`)
		c.wantMessage("window/showMessage", "didSave: the branch does not hold")
		refuse = nil
		f.taken()
		c.send(didChange("file:///a", 3, at(0, 0, 0, 0, "3")))
		c.send(hover)
		c.recv()
		same(t, f.taken(), []string{`change file:///a v3 "321"`, "request " + hover})

		// An open that failed for now has opened it all the same.
		refuse = errors.New("disk full")
		c.send(didOpen("file:///b", 1, "1"))
		c.wantMessage("window/showMessage", "disk full")
		refuse = nil
		f.taken()
		c.send(didChange("file:///b", 2, at(0, 0, 0, 0, "2")))
		c.nothing()
		same(t, f.taken(), []string{`change file:///b v2 "21"`})
		c.close()
	})
}

func TestTooManyDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := initialized(t, f, Config{Limits: Limits{Documents: 2}}, pull)
		for i := range 6 {
			c.send(didOpen(fmt.Sprintf("file:///%d", i), 1, "x"))
			if i >= 2 {
				c.wantMessage("window/showMessage", "2 documents are open")
			}
		}
		c.send(hover)
		c.wantError("1", wire.CodeRequestFailed, "2 documents are open")
		c.send(didChange("file:///3", 1, `{"text":"x"}`)) // still too many
		c.wantMessage("window/showMessage", "2 documents are open")
		c.send(didClose("file:///2"))
		c.send(didClose("file:///0"))
		c.send(didChange("file:///3", 1, `{"text":"x"}`))
		c.send(hover)
		c.recv()
		same(t, f.taken(), []string{`open file:///0 v1 "x"`, `open file:///1 v1 "x"`, `close file:///0`, `open file:///3 v1 "x"`, "request " + hover})
		c.close()
	})
}

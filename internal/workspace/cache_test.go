package workspace

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"shadowlsp/lsp/barrier"
	"shadowlsp/lsp/shadow"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// The cache gives back what was put, of its epoch only, and stays within its bound.
func TestCacheOfAnswers(t *testing.T) {
	var c cache
	about := func(n int) question { return question{what: fmt.Sprint(n)} }
	if _, ok := c.get(0, about(1)); ok || !c.empty(0) {
		t.Error("something is in an empty cache")
	}
	c.put(1, about(1), "one", 3)
	c.put(1, about(2), "two", 3)
	if got, ok := c.get(1, about(2), about(1)); !ok || got[0] != "two" || got[1] != "one" {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := c.get(1, about(1), about(3)); ok {
		t.Error("half an answer")
	}
	for _, other := range []uint64{0, 2} {
		if _, ok := c.get(other, about(1)); ok {
			t.Errorf("an answer of epoch 1 in epoch %d", other)
		}
	}
	c.put(0, about(3), "late", 4) // of an epoch that is over
	if _, ok := c.get(1, about(3)); ok {
		t.Error("a late answer was kept")
	}
	c.put(2, about(1), "new", 3)
	if got, ok := c.get(2, about(1)); !ok || got[0] != "new" {
		t.Errorf("got %v, %v", got, ok)
	}
	if s := c.status(); s.Answers != 1 || s.Hits != 2 {
		t.Errorf("%+v", s)
	}
	dice := rand.New(rand.NewPCG(1, 1))
	for n := range 2000 {
		c.put(2, about(dice.IntN(500)), n, dice.IntN(cacheBytes/16))
		sum := 0
		for e := c.order.Front(); e != nil; e = e.Next() {
			sum += e.Value.(cached).bytes
		}
		if sum != c.bytes || sum > cacheBytes || c.order.Len() != len(c.entries) {
			t.Fatalf("%d bytes counted, %d there, %d entries, %d in order", c.bytes, sum, len(c.entries), c.order.Len())
		}
	}
	c.put(2, about(1), "giant", cacheBytes)
	if _, ok := c.get(2, about(1)); ok {
		t.Log("the older answer stays")
	}
}

// Two branches are the same to a server where files and documents are.
func TestContentOfBranches(t *testing.T) {
	base, state := t.TempDir(), t.TempDir()
	store, _, err := overlay.Open(overlay.Options{Base: base, State: state})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	branch := func(name string, files ...string) *overlay.Branch {
		b, err := store.Create(name, overlay.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(files); i += 2 {
			if err := b.WriteFile(files[i], []byte(files[i+1]), 0); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	docs := []shadow.Document{{URI: "a", LanguageID: "go", Text: "bc"}}
	first := contentOf(branch("1", "f", "x", "g", "y"), docs)
	if again := contentOf(branch("2", "g", "y", "f", "z", "f", "x"), docs); again != first {
		t.Error("the same files by another way are another content")
	}
	for name, other := range map[string]content{
		"a byte":       contentOf(branch("3", "f", "X", "g", "y"), docs),
		"no file":      contentOf(branch("4", "f", "x"), docs),
		"no document":  contentOf(branch("5", "f", "x", "g", "y"), nil),
		"its text":     contentOf(branch("6", "f", "x", "g", "y"), []shadow.Document{{URI: "a", LanguageID: "go", Text: "b"}}),
		"its language": contentOf(branch("7", "f", "x", "g", "y"), []shadow.Document{{URI: "a", LanguageID: "c", Text: "bc"}}),
		"its borders":  contentOf(branch("8", "f", "x", "g", "y"), []shadow.Document{{URI: "a", LanguageID: "gob", Text: "c"}}),
	} {
		if other == first {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// What has effects, or more than one answer, is never kept.
func TestWhichRequestsAreKept(t *testing.T) {
	gopls := &pool{}
	gopls.known.Store(&barrier.Profile{Name: "gopls"})
	for body, want := range map[string]bool{
		`{"method":"textDocument/hover","params":{"a": 1}}`:                        true,
		`{"method":"textDocument/hover","params":{"a":1,"workDoneToken":3}}`:       false,
		`{"method":"textDocument/references","params":{"partialResultToken":"x"}}`: false,
		`{"method":"workspace/executeCommand","params":{}}`:                        false,
		`{"method":"textDocument/codeAction","params":{}}`:                         false,
		`{"method":"textDocument/completion","params":{}}`:                         false,
		`{"method":"textDocument/semanticTokens/full/delta","params":{}}`:          false,
		`{"method":"textDocument/unknown","params":{}}`:                            false,
		`{"method":"workspace/symbol","params":{"query":"x"}}`:                     true,
	} {
		m, err := wire.Parse([]byte(`{"jsonrpc":"2.0","id":1,` + body[1:]))
		if err != nil {
			t.Fatal(err)
		}
		if _, keep := gopls.aboutRequest(m); keep != want {
			t.Errorf("%s: %v", body, keep)
		}
	}
	other := &pool{}
	other.known.Store(&barrier.Profile{})
	m, _ := wire.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"workspace/symbol","params":{"query":"x"}}`))
	if _, keep := other.aboutRequest(m); keep {
		t.Error("symbols of a server that may be indexing are kept")
	}
}

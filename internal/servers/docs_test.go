package servers_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/internal/servers"
	"shadowlsp/lsp/barrier"
)

var update = flag.Bool("update", false, "write the table of docs/servers.md")

// docs/servers.md has the table as it is, and says of every barrier of its own what
// is final.
func TestDocs(t *testing.T) {
	name := filepath.Join(need.Repo(t), "docs", "servers.md")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table -->\n", "<!-- /table -->"
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the marks of the table are not there")
	}
	made := before + begin + rows(table(t, "").Servers) + end + after
	if made != string(data) {
		if !*update {
			t.Error("docs/servers.md has another table: go test ./internal/servers -update")
		} else if err := os.WriteFile(name, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range table(t, "").Servers {
		known := !barrier.For(s.Command, nil).Unknown()
		if said := strings.Contains(made, "\n### "+s.Name+"\n"); said != known {
			t.Errorf("%s: a barrier of its own: %t; what is final is said: %t", s.Name, known, said)
		}
	}
}

func rows(all []servers.Server) string {
	var b strings.Builder
	b.WriteString("| server | command | languages | project | reports | proof | install |\n|---|---|---|---|---|---|---|\n")
	for _, s := range all {
		p := barrier.For(s.Command, nil)
		reports, proof := "all", "own"
		if p.OpenOnly {
			reports = "open"
		}
		if p.Unknown() {
			proof = "ladder"
		}
		languages := strings.Join(s.Languages, ", ")
		if s.Linter() {
			languages += " (beside another)"
		}
		roots := strings.Join(s.Roots, ", ")
		if s.NeedsRoot {
			roots += " (needed)"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s | %s |\n", s.Name, strings.Join(s.Command, " "), languages, roots, reports, proof, s.Install)
	}
	return b.String()
}

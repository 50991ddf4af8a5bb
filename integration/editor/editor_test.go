package editor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// module writes a small module with a dependent package.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := stage.Plant(dir, map[string]string{
		"go.mod":         "module example.test/m\n\ngo 1.24\n",
		"greet/greet.go": "// Package greet greets.\npackage greet\n\n// Hello greets one person.\nfunc Hello(name string) string { return \"hello, \" + name }\n",
		"main.go":        "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.test/m/greet\"\n)\n\nfunc main() {\n\tfmt.Println(greet.Hello(\"you\"))\n}\n",
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAPersonWorksWithTheBareServer(t *testing.T) {
	dir := module(t)
	ctx := t.Context()
	e, err := Start(ctx, Config{
		Nvim: need.Tool(t, "nvim"), Command: []string{need.Tool(t, "gopls")}, Dir: dir,
		Env: []string{"XDG_STATE_HOME=" + t.TempDir()}, Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(e.Open(ctx, "main.go"))

	hover, took, err := e.Hover(ctx, At("main.go", "Hello"))
	must(err)
	if !strings.Contains(hover, "greets one person") {
		t.Errorf("hover: %q", hover)
	}
	t.Logf("hover %v", took)

	where, _, err := e.Definition(ctx, At("main.go", "Hello"))
	must(err)
	if len(where) != 1 || where[0].Path != filepath.Join(dir, "greet/greet.go") || where[0].Line != 4 {
		t.Errorf("definition: %v", where)
	}

	must(e.Type(ctx, After("main.go", `"you"))`), "\nfmt.Erro"))
	labels, took, err := e.Complete(ctx, After("main.go", "fmt.Erro"))
	must(err)
	if !slices.Contains(labels, "Errorf") {
		t.Errorf("completion: %v", labels)
	}
	t.Logf("completion %v", took)

	broken, err := e.WaitShown(ctx, "main.go", func(d []Diagnostic) bool { return len(d) > 0 })
	must(err)
	t.Logf("shown: %v", broken)
	must(e.Undo(ctx, "main.go"))
	_, err = e.WaitShown(ctx, "main.go", func(d []Diagnostic) bool { return len(d) == 0 })
	must(err)
	if len(e.Heard("Erro")) == 0 {
		t.Error("nothing heard of the broken line")
	}

	changed, _, err := e.Rename(ctx, At("main.go", "Hello"), "Hi")
	must(err)
	if len(changed) != 2 {
		t.Errorf("a rename changed %v", changed)
	}
	text, err := e.Text(ctx, "greet/greet.go")
	must(err)
	if !strings.Contains(text, "func Hi(name string)") {
		t.Errorf("after the rename: %s", text)
	}
	must(e.Save(ctx))
	onDisk, err := os.ReadFile(filepath.Join(dir, "main.go"))
	must(err)
	if !strings.Contains(string(onDisk), `greet.Hi("you")`) {
		t.Errorf("saved: %s", onDisk)
	}
	if err := e.ServerEnded(); err != nil {
		t.Error(err)
	}
}

func TestAWaitThatCannotBeMetFailsAtOnce(t *testing.T) {
	ctx := t.Context()
	e, err := Start(ctx, Config{
		Nvim: need.Tool(t, "nvim"), Command: []string{"sh", "-c", "exit 3"}, Dir: module(t),
		Env: []string{"XDG_STATE_HOME=" + t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Open(ctx, "main.go"); err == nil || !strings.Contains(err.Error(), "status 3") {
		t.Errorf("a server that ends at once: %v", err)
	}
}

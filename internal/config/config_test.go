package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shadowlsp/internal/config"
)

// The workspace's file counts over the person's, member by member.
func TestWorkspaceOverPerson(t *testing.T) {
	root, person := t.TempDir(), filepath.Join(t.TempDir(), "config.toml")
	write(t, person, `
[servers.pyright]
command = ["/opt/pyright", "--stdio"]
[servers.pyright.settings.python.analysis]
typeCheckingMode = "basic"
diagnosticMode = "workspace"
[languages]
"*.inc" = "php"
[run]
write = ["~/.cache"]
`)
	write(t, filepath.Join(root, config.WorkspaceFile), `
[servers.pyright.settings.python.analysis]
typeCheckingMode = "strict"
[servers.gopls]
disabled = true
`)
	got, err := config.Load(person, root)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := config.File{
		Servers: map[string]config.Server{
			"gopls": {Disabled: &yes},
			"pyright": {
				Command: []string{"/opt/pyright", "--stdio"},
				Settings: map[string]any{"python": map[string]any{"analysis": map[string]any{
					"typeCheckingMode": "strict", "diagnosticMode": "workspace",
				}}},
			},
		},
		Languages: map[string]string{"*.inc": "php"},
		Run:       config.Run{Write: []string{"~/.cache"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A repository cannot open the person's folders to programs in its branches.
func TestWorkspaceOpensNothing(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, config.WorkspaceFile), "[run]\nwrite = [\"~\"]\n")
	if _, err := config.Load("", root); err == nil || !strings.Contains(err.Error(), "run.write") {
		t.Errorf("got %v", err)
	}
}

// Nothing there is nothing said.
func TestMissingFiles(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "none"), t.TempDir()); err != nil {
		t.Error(err)
	}
}

// What is wrong is named.
func TestMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"[servers.gopls]\ncomand = [\"x\"]":  "comand",
		"[servers.gopls]\ncommand = \"x\"":   "command",
		"[servers.gopls]\ncommand = []":      "empty",
		"[servers.gopls]\nrole = \"helper\"": "helper",
		"[serverz]":                          "serverz",
		"[servers":                           "not understood",
	} {
		if _, err := config.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", text, err, says)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

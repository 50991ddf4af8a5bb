package barrier

import "encoding/json"

// gopls is the profile of gopls. Settings are read from initializationOptions
// and from workspace/configuration, section "gopls"; both must hold ours,
// because the first count for the session and the second for its views.
func gopls() Profile {
	return Profile{
		Name:        "gopls",
		Commands:    []string{"gopls"},
		ServerNames: []string{"gopls"},
		Languages: []Language{
			{"go.mod", "go.mod"}, {"go.sum", "go.sum"}, {"go.work", "go.work"},
			{".go", "go"}, {".tmpl", "gotmpl"}, {".gotmpl", "gotmpl"}, {".gohtml", "gotmpl"},
		},
		Drop: []Flag{
			// A shadow is a process of its own, in its own view of the files,
			// never a guest of a shared daemon.
			{"remote", true}, {"remote.", true}, {"listen", true}, {"listen.", true},
			// These name a port or a file that the person's own gopls has.
			{"debug", true}, {"mcp.listen", true}, {"logfile", true}, {"otel", true},
		},
		Settings: Settings{
			Section: "gopls", InitializationOptions: true, Flat: true,
			Options: []Option{
				// The progress that the barrier counts.
				{Name: "verboseWorkDoneProgress", Value: Raw(true)},
				// One phase of diagnosing in place of two, a second apart.
				{Name: "diagnosticsDelay", Value: Raw("0s")},
				// With "Save" a didChange ends without having diagnosed.
				{Name: "diagnosticsTrigger", Value: Raw("Edit")},
				// A watcher of its own would begin progress that no
				// notification of ours has caused.
				{Name: "fileWatcher", Value: Raw("off")},
				// "Prompt" (the default) starts govulncheck in the background
				// after go.mod changes where the person once answered
				// "always"; its findings come outside any order.
				{Name: "vulncheck", Value: Raw("Off"), Keep: []json.RawMessage{Raw("Imports")}},
				{Name: "telemetryPrompt", Value: Raw(false)},
			},
		},
		// It loads no package for a didOpen or a file event alone.
		LoadFirst: []string{
			"textDocument/references", "textDocument/rename", "textDocument/implementation", "workspace/symbol",
			"workspace/willRenameFiles", "callHierarchy/incomingCalls", "typeHierarchy/subtypes",
		},
		New: func(h Host) Barrier { return newGopls(h) },
	}
}

// Titles of the progress that gopls 0.23.0 shows with verboseWorkDoneProgress
// (internal/server/text_synchronization.go, ModificationSource.String).
const (
	goplsDiagnosing = "diagnosing "
	goplsLoading    = goplsDiagnosing + "initial workspace load"
	goplsLoadFailed = "Error loading workspace" // diagnostics.go, WorkspaceLoadFailure
)

// goplsCauses maps each notification that gopls answers with a bracket to the
// bracket's title.
var goplsCauses = map[string]string{
	"textDocument/didOpen":                goplsDiagnosing + "opened files",
	"textDocument/didChange":              goplsDiagnosing + "changed files",
	"textDocument/didSave":                goplsDiagnosing + "saved files",
	"textDocument/didClose":               goplsDiagnosing + "close files",
	"workspace/didChangeWatchedFiles":     goplsDiagnosing + "files changed on disk",
	"workspace/didChangeConfiguration":    goplsDiagnosing + "unknown file modification",
	"workspace/didChangeWorkspaceFolders": goplsLoading,
	"initialized":                         goplsLoading,
}

// goplsDiagnosesInOrder are the titles whose diagnosis a later modification
// takes over when it cancels it (server.viewsToDiagnose). All other "diagnosing"
// brackets work on a context of their snapshot: a later modification cancels
// them, and what they would have found is lost until something touches it
// again. So no modification is sent while one of those is open.
var goplsDiagnosesInOrder = map[string]bool{
	goplsCauses["textDocument/didOpen"]:            true,
	goplsCauses["textDocument/didChange"]:          true,
	goplsCauses["textDocument/didSave"]:            true,
	goplsCauses["textDocument/didClose"]:           true,
	goplsCauses["workspace/didChangeWatchedFiles"]: true,
}

package barrier

// rustAnalyzer is the profile of rust-analyzer. Its settings are those of
// initializationOptions and of workspace/configuration, section "rust-analyzer",
// nested by the dots of their names.
func rustAnalyzer() Profile {
	caps := func(path ...string) []string { return append([]string{"capabilities"}, path...) }
	return Profile{
		Name:        "rust-analyzer",
		Commands:    []string{"rust-analyzer", "rust-analyzer-linux", "ra_lsp_server"},
		ServerNames: []string{"rust-analyzer"},
		Languages:   []Language{{".rs", "rust"}},
		Drop: []Flag{
			// A file that the person's own server writes to.
			{"log-file", true},
		},
		Initialize: []Edit{
			// Tells when it has loaded.
			{Path: caps("experimental", "serverStatusNotification"), Value: Raw(true)},
			// Its own diagnostics are asked for, not pushed at some time: a pull
			// is of the state that it meets.
			{Path: caps("textDocument", "diagnostic"), Value: Raw(map[string]any{}), Keep: true},
			// Tells that something that was read from the disk has arrived.
			{Path: caps("workspace", "diagnostics", "refreshSupport"), Value: Raw(true)},
		},
		Settings: Settings{
			Section: "rust-analyzer", InitializationOptions: true, Nested: true,
			Options: []Option{
				// All checks are begun by the barrier: one that the server has
				// begun by itself could not be told from ours, and would cancel it.
				// (An object was the setting's shape before 2023.)
				{Name: "checkOnSave", Value: Raw(false), Inside: "enable"},
				// What a save would check, and what depends on that, is all known
				// only from the whole.
				{Name: "check.workspace", Value: Raw(true)},
				// Its own watcher hears of a switch at some time, and unordered.
				{Name: "files.watcher", Value: Raw("client")},
				// Without, an edit of Cargo.toml waits for a person's click.
				{Name: "cargo.autoreload", Value: Raw(true)},
				// What is needed is computed when it is needed: the whole graph of
				// dependencies at every start is an editor's comfort.
				{Name: "cachePriming.enable", Value: Raw(false)},
				// Its workers publish, each as soon as it can: of several, an older
				// publish may come last, and any of them behind every answer.
				{Name: "numThreads", Value: Raw(1)},
				// The snippets that are its default are only there once it was given
				// any setting (config.rs, apply_change_with_sink): those above would
				// bring an agent completions that the person's own does not have.
				{Name: "completion.snippets.custom", Value: Raw(map[string]any{}), Unsaid: true},
			},
		},
		New: func(h Host) Barrier { return newRust(h) },
	}
}

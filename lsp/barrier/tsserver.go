package barrier

import "encoding/json"

// tsLanguages are the files that tsserver takes.
var tsLanguages = []Language{
	{".ts", "typescript"}, {".mts", "typescript"}, {".cts", "typescript"}, {".tsx", "typescriptreact"},
	{".js", "javascript"}, {".mjs", "javascript"}, {".cjs", "javascript"}, {".jsx", "javascriptreact"},
}

// typescriptLanguageServer is the profile of typescript-language-server.
func typescriptLanguageServer() Profile {
	option := func(value json.RawMessage, path ...string) Edit {
		return Edit{Path: append([]string{"initializationOptions"}, path...), Value: value}
	}
	return Profile{
		Name:      "typescript-language-server",
		Commands:  []string{"typescript-language-server"},
		Executes:  "_typescript.applyRenameFile",
		Languages: tsLanguages,
		Initialize: []Edit{
			// It then hands file events to tsserver at once and in order
			// (TypeScript 5.4.4 and later), in place of watching by itself,
			// which takes 2.7 s and has no end that could be seen.
			option(Raw(true), "tsserver", "useClientFileWatcher"),
			// One process in place of two. The second answers while a project
			// loads, from open files alone: quickly, and wrongly.
			option(Raw("never"), "tsserver", "useSyntaxServer"),
			// It fetches packages from the network, and its end is not told.
			option(Raw(true), "disableAutomaticTypingAcquisition"),
			// Logs and traces would be written into the workspace.
			option(Raw("off"), "tsserver", "logVerbosity"),
			option(Raw("off"), "tsserver", "trace"),
		},
		AllFiles: true,
		// Whether there is one it remembers until all documents that looked for it
		// are closed (ConfigFileExistenceInfo), and watches only those that there
		// are. reloadProjects does not ask again either.
		Nearest: []string{"tsconfig.json", "jsconfig.json"},
		New:     func(h Host) Barrier { return newTsserver(h, typescriptDialect) },
	}
}

// vtsls is the profile of vtsls, which is VS Code's TypeScript extension behind
// LSP. It asks for all settings at once, and has no way to hand file events to
// tsserver.
func vtsls() Profile {
	return Profile{
		Name:        "vtsls",
		Commands:    []string{"vtsls", "@vtsls/language-server"},
		ServerNames: []string{"vtsls"},
		Languages:   tsLanguages,
		Initialize:  []Edit{{Path: []string{"initializationOptions", "tsLogPath"}}},
		Settings: Settings{
			Everything: true, Nested: true,
			Options: []Option{
				{Name: "typescript.tsserver.useSyntaxServer", Value: Raw("never")},
				{Name: "typescript.disableAutomaticTypeAcquisition", Value: Raw(true)},
				// tsserver watches nothing by itself: it would take seconds, and
				// update projects while an answer is awaited.
				{Name: "typescript.tsserver.experimental.useVsCodeWatcher", Value: Raw(false)},
				{Name: "typescript.tsserver.watchOptions", Value: Raw(map[string]any{
					"excludeDirectories": []string{"/**/*"}, "excludeFiles": []string{"/**/*"},
				})},
				// A third process, which only diagnoses, and publishes for
				// files that nobody opened.
				{Name: "typescript.tsserver.experimental.enableProjectDiagnostics", Value: Raw(false)},
				{Name: "typescript.tsserver.log", Value: Raw("off")},
				{Name: "typescript.tsserver.enableTracing", Value: Raw(false)},
			},
		},
		AllFiles: true,
		New:      func(h Host) Barrier { return newTsserver(h, vtslsDialect) },
	}
}

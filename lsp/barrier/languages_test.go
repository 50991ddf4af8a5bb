package barrier

import "testing"

func TestLanguageOf(t *testing.T) {
	for file, want := range map[string]string{
		"a/b.go": "go", "go.mod": "go.mod", "x/Dockerfile": "dockerfile", "web.Dockerfile": "", "a.tsx": "typescriptreact",
		"tsconfig.json": "jsonc", "a.json": "json", "LICENSE": "", ".bashrc": "shellscript",
	} {
		if got, _ := LanguageOf(file); got != want {
			t.Errorf("%s is %q, not %q", file, got, want)
		}
	}
}

func TestLanguageOfScript(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\nx": "shellscript", "#! /usr/bin/env -S bash -e": "shellscript", "#!/usr/bin/env A=b python3.12\n": "python",
		"#!/usr/bin/python3": "python", "#!/usr/bin/frob": "", "# no": "", "": "", "#!": "", "#!/usr/bin/env": "",
	} {
		if got, _ := LanguageOfScript(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}

package stage

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// Module is a person's folder: an exported function, a package that calls it and
// is opened by nobody, and whatever more a test needs.
func Module(more map[string]string) map[string]string {
	files := map[string]string{
		"go.mod":     "module example.test/m\n\ngo 1.24\n",
		"lib/lib.go": LibText("int"),
		"use/use.go": "// Package use calls lib.\npackage use\n\nimport \"example.test/m/lib\"\n\n// V is of lib.\nvar V = lib.F(1)\n",
	}
	maps.Copy(files, more)
	return files
}

// LibText is lib/lib.go with a parameter type; any other than int is declared
// there and makes the call in use/use.go an error that names it.
func LibText(parameter string) string {
	text := "// Package lib is called by use.\npackage lib\n\n// F returns what it is given.\nfunc F(a " + parameter + ") " + parameter + " { return a }\n"
	if parameter != "int" {
		text += "\n// " + parameter + " is no int.\ntype " + parameter + " struct{}\n"
	}
	return text
}

// Plant writes files into a folder, with the folders that they need. Scripts
// become executable.
func Plant(dir string, files map[string]string) error {
	for name, text := range files {
		name = filepath.Join(dir, name)
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode)); err != nil {
			return err
		}
	}
	return nil
}

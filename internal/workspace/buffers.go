package workspace

import (
	"maps"
	"os"
	"slices"
	"strings"

	"shadowlsp/lsp/docuri"
	"shadowlsp/lsp/wire"
)

// attached are the editors now.
func (d *daemon) attached() []*editor {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.editors))
}

// inTheWay refuses to change files that the person has open with unsaved text, or
// with text that is not known: a save would bring the old text back, or the person
// would have to choose.
func (d *daemon) inTheWay(editors []*editor, paths []string) error {
	var unsaved, unknown []string
	for _, e := range editors {
		dirty, hazy, all := e.unsettled(func(path string) bool {
			rel, err := relative(d.root, path)
			return err == nil && slices.Contains(paths, rel)
		})
		if !all {
			return wire.Errorf(wire.CodeRequestFailed, "which files the editor has open, and whether they are saved, is not known for sure (it was open before this daemon ran, or has sent more than could be followed): restart the language server in the editor, or force it when all is saved")
		}
		unsaved, unknown = append(unsaved, dirty...), append(unknown, hazy...)
	}
	switch {
	case len(unsaved) > 0:
		return wire.Errorf(wire.CodeRequestFailed, "the editor holds unsaved text of %s: save or discard it first, or force it", strings.Join(unsaved, ", "))
	case len(unknown) > 0:
		return wire.Errorf(wire.CodeRequestFailed, "the editor has %s open, and whether it is saved is not known: close it there first, or force it", strings.Join(unknown, ", "))
	}
	return nil
}

// unsettled are the files among those asked for whose open text differs from the
// disk's, and those whose open text is not known. all is false where some open
// document may not be known at all.
func (e *editor) unsettled(asked func(path string) bool) (dirty, hazy []string, all bool) {
	const mark = "\ufeff" // editors do not send it, and keep it in the file
	e.mu.Lock()
	defer e.mu.Unlock()
	for uri, d := range e.documents {
		path, ok := docuri.Path(uri)
		if !ok || !asked(path) {
			continue
		}
		if !d.known {
			hazy = append(hazy, path)
			continue
		}
		disk, err := os.ReadFile(path)
		if err != nil || strings.TrimPrefix(string(disk), mark) != strings.TrimPrefix(d.text, mark) {
			dirty = append(dirty, path)
		}
	}
	slices.Sort(dirty)
	slices.Sort(hazy)
	return dirty, hazy, e.documentsOK
}

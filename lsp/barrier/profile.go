package barrier

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// Profile is what is known about one server. It is data, but for New.
type Profile struct {
	// Name is the server's, for logs and reports; "generic" for unknown ones.
	Name string
	// Commands are the names it is started by, as Programs returns them.
	Commands []string
	// ServerNames are what it calls itself in serverInfo.name.
	ServerNames []string
	// Executes is a command that it alone offers to execute, for servers that do
	// not say their name.
	Executes string
	// Languages of the files it takes. The first that matches counts.
	Languages []Language
	// Drop are the command's flags that a shadow must not have.
	Drop []Flag
	// Initialize are edits of the initialize params, behind those that every
	// shadow gets.
	Initialize []Edit
	// Settings must hold in its configuration.
	Settings Settings
	// Change are edits of every didChange's params.
	Change []Edit
	// OpenOnly says that it diagnoses open documents only, or is right about those
	// only: what is asked about has to be opened.
	OpenOnly bool
	// CheckOnSave says that part of its diagnostics come only for saved
	// documents.
	CheckOnSave bool
	// Lingers says that what it has read of a document is found by its other
	// requests after it was closed, whatever the file holds then.
	Lingers bool
	// Scans says that it reads the files that it takes when it starts, and finds what
	// was in them by its other requests, too, without hearing that they have changed
	// since: with Lingers, those that have are documents to it from then on.
	Scans bool
	// LoadFirst are requests whose answer comes from all files, and before which
	// the server has to be made to look at those that are new to it.
	LoadFirst []string
	// Unset answers questions for sections of settings that nobody has; null
	// those that are not here.
	Unset map[string]json.RawMessage
	// Nearest are base names of files of which the nearest above a document
	// decides what project it is in, and which the server looks for only once
	// while any document that is below them is open.
	Nearest []string
	// Remembers says that what it has read of a file, or that there was none, it may
	// go by for as long as it runs: where such a file changes, another process has
	// to answer.
	Remembers bool
	// AllFiles says that every change of a file is told, whatever the server
	// has registered.
	AllFiles bool
	// New makes the barrier of one instance.
	New func(Host) Barrier
}

// Language says which files a server takes as which language.
type Language struct {
	// Match is a base name ("go.mod"), or an extension with its dot (".go").
	Match string
	// ID is LSP's language id.
	ID string
}

// Flag is a command-line flag to drop, without its dashes. A Name that ends in
// "." stands for all flags that begin so.
type Flag struct {
	Name  string
	Value bool // it takes one, so "-flag value" are two arguments
}

// Settings are options that a server must have for the barrier to hold.
type Settings struct {
	// Section is the section of workspace/configuration that they belong to.
	Section string
	// Everything says that the server asks for all settings at once, with the
	// section "".
	Everything bool
	// InitializationOptions says that they go into those as well.
	InitializationOptions bool
	// Flat says that "a.b.name" and "name" are one option (gopls).
	Flat bool
	// Nested says that an option "a.b" is member b of the object a.
	Nested  bool
	Options []Option
}

// Option is one setting.
type Option struct {
	Name  string
	Value json.RawMessage
	// Keep are values of the person's that do no harm and stay.
	Keep []json.RawMessage
	// Inside is the member that is set where the person's value is an object.
	Inside string
	// Unsaid is for where the person has no settings of the server at all, and
	// the server does not then do what its defaults say.
	Unsaid bool
	// Present is for where the person has a value of it (Nested ones only).
	Present bool
}

// Holds says whether the settings belong to a section.
func (s Settings) Holds(section string) bool {
	return section == s.Section && (section != "" || s.Everything)
}

// Apply puts the settings into a section's value.
func (s Settings) Apply(value json.RawMessage) json.RawMessage {
	said := Said(value)
	for _, o := range s.Options {
		if !o.Unsaid || !said {
			value = s.set(value, o)
		}
	}
	return value
}

// Said says whether a section's value says anything: null and {} do not.
func Said(value json.RawMessage) bool {
	found, object := members(value)
	return object && len(found) > 0
}

// With returns the settings with one more option, or another of its name.
func (s Settings) With(o Option) Settings {
	s.Options = slices.DeleteFunc(slices.Clone(s.Options), func(old Option) bool { return old.Name == o.Name })
	s.Options = append(s.Options, o)
	return s
}

func (s Settings) set(value json.RawMessage, o Option) json.RawMessage {
	if s.Nested {
		return s.setNested(value, o)
	}
	found, _ := members(value)
	for _, m := range found {
		if m.name != o.Name && !(s.Flat && strings.HasSuffix(m.name, "."+o.Name)) {
			continue
		}
		old := value[m.start:m.end]
		if slices.ContainsFunc(o.Keep, func(k json.RawMessage) bool { return string(k) == string(old) }) {
			return value
		}
	}
	if s.Flat {
		// Two spellings of one option: which one counts is left to chance by
		// gopls (it walks a map), so only ours stays.
		for _, m := range found {
			if strings.HasSuffix(m.name, "."+o.Name) {
				value = Apply(value, []Edit{{Path: []string{m.name}}})
			}
		}
	}
	return Apply(value, []Edit{{Path: []string{o.Name}, Value: o.Value}})
}

func (s Settings) setNested(value json.RawMessage, o Option) json.RawMessage {
	path := strings.Split(o.Name, ".")
	old, present := Lookup(value, path...)
	if o.Present && !present {
		return value
	}
	if slices.ContainsFunc(o.Keep, func(k json.RawMessage) bool { return string(k) == string(old) }) {
		return value
	}
	if _, object := members(old); object && o.Inside != "" {
		path = append(path, o.Inside)
	}
	return Apply(value, []Edit{{Path: path, Value: o.Value}})
}

// Language returns the language id for a file's path. ok is false where the
// server does not take it.
func (p Profile) Language(file string) (id string, ok bool) {
	base := path.Base(file)
	for _, l := range p.Languages {
		if l.Match == base || strings.HasPrefix(l.Match, ".") && strings.HasSuffix(base, l.Match) {
			return l.ID, true
		}
	}
	return "", false
}

// Arguments returns the command that a shadow runs instead of command.
func (p Profile) Arguments(command []string) []string {
	var kept []string
	for i := 0; i < len(command); i++ {
		arg := command[i]
		if i == 0 || arg == "--" {
			if arg == "--" {
				return append(kept, command[i:]...)
			}
			kept = append(kept, arg)
			continue
		}
		name, _, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		flag, drop := p.drops(arg, name)
		if !drop {
			kept = append(kept, arg)
			continue
		}
		if flag.Value && !inline {
			i++
		}
	}
	return kept
}

func (p Profile) drops(arg, name string) (Flag, bool) {
	if !strings.HasPrefix(arg, "-") {
		return Flag{}, false
	}
	for _, f := range p.Drop {
		if f.Name == name || strings.HasSuffix(f.Name, ".") && strings.HasPrefix(name, f.Name) {
			return f, true
		}
	}
	return Flag{}, false
}

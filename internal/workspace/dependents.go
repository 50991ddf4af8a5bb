package workspace

import (
	"context"
	"fmt"
	"hash/maphash"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/servers"
	"shadowlsp/overlay"
)

const (
	// maxDependents bounds the files that are opened for one lint because something
	// that they mention has changed: a few seconds of most servers.
	maxDependents = 50
	// maxMentioning bounds the files that are looked through for mentions.
	maxMentioning = 10_000
	// maxMentioned is the size of the largest one that is, in bytes: no person wrote
	// a larger one.
	maxMentioned = 512 << 10
)

// dependents are files that may have been broken by the changed ones, for a server
// that diagnoses open files only: those that mention a changed file's name, then
// those that mention theirs (they may pass on what they import), up to a limit.
// cut says what was not looked at, or is "".
func (s *session) dependents(ctx context.Context, p *pool, changed []string) (paths []string, cut string, err error) {
	if len(changed) == 0 {
		return nil, "", nil
	}
	files, all, err := s.mentioning(ctx, p)
	if err != nil {
		return nil, "", err
	}
	if !all {
		cut = fmt.Sprintf("only %d files of %s were looked through for mentions of what changed: the diagnostics of others are not known", maxMentioning, p.profile().Name)
	}
	seen := map[string]bool{}
	for _, c := range changed {
		seen[c] = true
	}
	for level := changed; len(level) > 0; {
		var next []string
		for _, c := range level {
			stem := stemWords(c)
			for _, f := range files {
				if seen[f.path] || len(stem) == 0 || !f.words.mention(stem) {
					continue
				}
				if len(paths) == maxDependents {
					return paths, fmt.Sprintf("only %d files that mention what changed were opened for %s: the diagnostics of others are not known", maxDependents, p.profile().Name), nil
				}
				seen[f.path] = true
				paths, next = append(paths, f.path), append(next, f.path)
			}
		}
		level = next
	}
	return paths, cut, nil
}

// stemWords are the words by which other files name a file: those of its name, or
// of its folder's where the name says nothing.
func stemWords(file string) []uint64 {
	base := path.Base(file)
	stem, _, _ := strings.Cut(base, ".")
	switch stem {
	case "index", "__init__", "mod", "main", "lib", "":
		if stem = path.Base(path.Dir(file)); stem == "." {
			return nil
		}
	}
	return wordsOf(stem)
}

// words are the hashes of a text's words, sorted.
type words []uint64

func (w words) mention(stem []uint64) bool {
	for _, h := range stem {
		if _, ok := slices.BinarySearch(w, h); !ok {
			return false
		}
	}
	return true
}

var wordSeed = maphash.MakeSeed()

func wordsOf(text string) words {
	var w words
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		w = append(w, maphash.String(wordSeed, word))
	}
	slices.Sort(w)
	return slices.Compact(w)
}

// mentions remembers the words of files, so that a second lint reads none twice.
type mentions struct {
	mu    sync.Mutex // guards the field below
	files map[string]mentioned
}

// mentioned is one file's words.
type mentioned struct {
	path  string
	stamp stamp
	words words
}

// stamp tells one content of a file from another.
type stamp struct {
	layer uint64
	size  int64
	mtime overlay.Time
}

// mentioning returns all files of the branch that p's server takes, with their
// words; all is false where there are too many.
func (s *session) mentioning(ctx context.Context, p *pool) (files []mentioned, all bool, err error) {
	m := &s.d.mentions
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil || len(m.files) > 2*maxMentioning {
		m.files = map[string]mentioned{}
	}
	all = true
	var below func(dir string) error
	below = func(dir string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := s.branch.over.ReadDir(dir)
		if err != nil {
			if overlay.KindOf(err) == overlay.NotExist || overlay.KindOf(err) == overlay.Permission {
				return nil
			}
			return err
		}
		for _, e := range entries {
			file := path.Join(dir, e.Name)
			switch e.Mode & unix.S_IFMT {
			case unix.S_IFDIR:
				if !servers.Skipped(file+"/x") && !strings.HasPrefix(e.Name, ".") {
					if err := below(file); err != nil {
						return err
					}
				}
			case unix.S_IFREG:
				if _, takes := p.language(file, "", nil); !takes {
					continue
				}
				if len(files) == maxMentioning {
					all = false
					return nil
				}
				if f, ok := m.readLocked(s.branch, file); ok {
					files = append(files, f)
				}
			}
		}
		return nil
	}
	err = below("")
	return files, all, err
}

func (m *mentions) readLocked(b *branch, file string) (mentioned, bool) {
	n, err := b.over.Lookup(file)
	if err != nil || n.Attr.Size > maxMentioned {
		return mentioned{}, false
	}
	now := stamp{n.Stamp, n.Attr.Size, n.Attr.Mtime}
	if f, ok := m.files[file]; ok && f.stamp == now {
		return f, true
	}
	data, err := b.over.ReadFile(file)
	if err != nil || !utf8.Valid(data) {
		return mentioned{}, false
	}
	f := mentioned{file, now, wordsOf(string(data))}
	m.files[file] = f
	return f, true
}

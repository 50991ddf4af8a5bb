package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// rounds is how often each change of the base is made.
const rounds = 22

// saving is one way in which a person's folder changes: do makes the change of a
// round and returns what lints must say then, by path: the words that errors
// name, none for a clean file.
type saving struct {
	name string
	do   func(t *testing.T, w *world, round int) map[string][]string
}

// replaced saves as many editors do: a new file takes the place of the old one.
func replaced(t *testing.T, w *world, name, text string) {
	t.Helper()
	temp := w.path(name) + "~"
	must(t, os.WriteFile(temp, []byte(text), 0o644))
	must(t, os.Rename(temp, w.path(name)))
}

// stamped is a file's content with times of its own, as rsync or an archive leaves
// it.
func stamped(t *testing.T, w *world, name, text string, stamp time.Time) {
	t.Helper()
	w.write(t, name, text)
	must(t, os.Chtimes(w.path(name), stamp, stamp))
}

var savings = []saving{
	{"in place", func(t *testing.T, w *world, round int) map[string][]string {
		word := fmt.Sprintf("InPlace%d", round)
		w.write(t, "lib/lib.go", stage.LibText(word))
		return map[string][]string{"use/use.go": {word}, "lib/lib.go": nil}
	}},
	{"in place, an error and none in turn", func(t *testing.T, w *world, round int) map[string][]string {
		if round%2 == 0 {
			w.write(t, "own/own.go", ownText("undefinedNow"))
			return map[string][]string{"own/own.go": {"undefinedNow"}}
		}
		w.write(t, "own/own.go", ownText(""))
		return map[string][]string{"own/own.go": nil}
	}},
	{"by rename", func(t *testing.T, w *world, round int) map[string][]string {
		word := fmt.Sprintf("ByRename%d", round)
		replaced(t, w, "lib/lib.go", stage.LibText(word))
		return map[string][]string{"use/use.go": {word}, "lib/lib.go": nil}
	}},
	{"by rename, with a backup", func(t *testing.T, w *world, round int) map[string][]string {
		word := fmt.Sprintf("Backup%d", round)
		must(t, os.Rename(w.path("lib/lib.go"), w.path("lib/lib.go.ignored")))
		w.write(t, "lib/lib.go", stage.LibText(word))
		must(t, os.Remove(w.path("lib/lib.go.ignored")))
		return map[string][]string{"use/use.go": {word}, "lib/lib.go": nil}
	}},
	{"same size, same time", func(t *testing.T, w *world, round int) map[string][]string {
		word := fmt.Sprintf("Stamp%02d", round)
		stamped(t, w, "lib/lib.go", stage.LibText(word), time.Unix(1_600_000_000, 0))
		return map[string][]string{"use/use.go": {word}}
	}},
	{"create and delete a file of a package", func(t *testing.T, w *world, round int) map[string][]string {
		if round%2 == 0 {
			w.write(t, "lib/more.go", "package lib\n\n// More comes and goes.\nconst More = 1\n")
			w.write(t, "use/use.go", strings.Replace(module["use/use.go"], "lib.F(1)", "lib.F(lib.More)", 1))
			return map[string][]string{"use/use.go": nil}
		}
		must(t, os.Remove(w.path("lib/more.go")))
		return map[string][]string{"use/use.go": {"More"}}
	}},
	{"delete the only file and bring it back", func(t *testing.T, w *world, round int) map[string][]string {
		if round%2 == 0 {
			must(t, os.Remove(w.path("lib/lib.go")))
			return map[string][]string{"use/use.go": {"lib"}}
		}
		word := fmt.Sprintf("Back%d", round)
		w.write(t, "lib/lib.go", stage.LibText(word))
		return map[string][]string{"use/use.go": {word}}
	}},
	{"rename a file away and back", func(t *testing.T, w *world, round int) map[string][]string {
		names := []string{"lib/lib.go", "lib/other.go"}
		word := fmt.Sprintf("Renamed%d", round)
		w.write(t, names[round%2], stage.LibText(word))
		must(t, os.Rename(w.path(names[round%2]), w.path(names[1-round%2])))
		if round%2 == rounds%2 {
			return map[string][]string{"use/use.go": {word}, "lib/other.go": nil}
		}
		return map[string][]string{"use/use.go": {word}}
	}},
	{"rename a file out of its package and back", func(t *testing.T, w *world, round int) map[string][]string {
		if round%2 == 0 {
			must(t, os.Rename(w.path("lib/lib.go"), w.path("lib.ignored")))
			return map[string][]string{"use/use.go": {"lib"}}
		}
		must(t, os.Rename(w.path("lib.ignored"), w.path("lib/lib.go")))
		return map[string][]string{"use/use.go": nil}
	}},
	{"make and remove a directory with files", func(t *testing.T, w *world, round int) map[string][]string {
		user := "package use\n\nimport \"example.test/m/made/deep\"\n\nvar _ = deep.%s\n"
		if round%2 == 0 {
			word := fmt.Sprintf("InDir%d", round)
			must(t, os.MkdirAll(w.path("made/deep"), 0o755))
			w.write(t, "made/deep/deep.go", "package deep\n\n// "+word+" is here.\nconst "+word+" = 1\n")
			w.write(t, "use/use.go", fmt.Sprintf(user, word))
			return map[string][]string{"use/use.go": nil}
		}
		must(t, os.RemoveAll(w.path("made")))
		return map[string][]string{"use/use.go": {"deep"}}
	}},
	{"a directory that is filled later", func(t *testing.T, w *world, round int) map[string][]string {
		user := "package use\n\nimport \"example.test/m/later\"\n\nvar _ = later.%s\n"
		word := fmt.Sprintf("Later%d", round)
		switch round % 3 {
		case 0:
			must(t, os.RemoveAll(w.path("later")))
			must(t, os.Mkdir(w.path("later"), 0o755))
			w.write(t, "use/use.go", fmt.Sprintf(user, "Nothing"))
			return map[string][]string{"use/use.go": {"later"}}
		case 1:
			w.write(t, "later/later.go", "package later\n")
			return map[string][]string{"use/use.go": {"Nothing"}}
		}
		w.write(t, "later/later.go", "package later\n\n// "+word+" is here.\nconst "+word+" = 1\n")
		w.write(t, "use/use.go", fmt.Sprintf(user, word))
		return map[string][]string{"use/use.go": nil}
	}},
	{"a directory that nobody imports, filled later", func(t *testing.T, w *world, round int) map[string][]string {
		word := fmt.Sprintf("undefinedQuiet%d", round)
		switch round % 3 {
		case 0:
			must(t, os.RemoveAll(w.path("quiet")))
			must(t, os.MkdirAll(w.path("quiet/deep"), 0o755))
			return map[string][]string{"use/use.go": nil}
		case 1:
			w.write(t, "quiet/deep/q.go", "package deep\n\nvar _ = "+word+"\n")
			return map[string][]string{"quiet/deep/q.go": {word}}
		}
		w.write(t, "quiet/deep/q.go", "package deep\n\nvar _ = "+word+"\n")
		return map[string][]string{"quiet/deep/q.go": {word}}
	}},
	{"two directories change places", func(t *testing.T, w *world, round int) map[string][]string {
		if round == 0 {
			must(t, os.Mkdir(w.path("spare"), 0o755))
			w.write(t, "spare/lib.go", stage.LibText("Spare"))
		}
		must(t, os.Rename(w.path("lib"), w.path("between")))
		must(t, os.Rename(w.path("spare"), w.path("lib")))
		must(t, os.Rename(w.path("between"), w.path("spare")))
		if round%2 == 0 {
			return map[string][]string{"use/use.go": {"Spare"}}
		}
		return map[string][]string{"use/use.go": nil}
	}},
	{"a symbolic link to one of two files", func(t *testing.T, w *world, round int) map[string][]string {
		word := fmt.Sprintf("Linked%d", round%2)
		w.write(t, "lib/real"+word+".ignored", stage.LibText(word))
		os.Remove(w.path("lib/link"))
		must(t, os.Symlink("real"+word+".ignored", w.path("lib/link")))
		must(t, os.Rename(w.path("lib/link"), w.path("lib/lib.go")))
		return map[string][]string{"use/use.go": {word}}
	}},
	{"git checkout of another branch", func(t *testing.T, w *world, round int) map[string][]string {
		if round == 0 {
			w.git(t, "checkout", "--quiet", "-b", "theirs")
			w.write(t, "lib/lib.go", stage.LibText("Theirs"))
			must(t, os.Mkdir(w.path("extra"), 0o755))
			w.write(t, "extra/extra.go", "package extra\n\nvar _ = undefinedExtra\n")
			must(t, os.Remove(w.path("own/own.go")))
			w.git(t, "add", "--all")
			w.git(t, "commit", "--quiet", "--message", "theirs")
			return map[string][]string{"use/use.go": {"Theirs"}, "extra/extra.go": {"undefinedExtra"}}
		}
		if round%2 == 1 {
			w.git(t, "checkout", "--quiet", w.mainBranch(t))
			return map[string][]string{"use/use.go": nil, "own/own.go": nil}
		}
		w.git(t, "checkout", "--quiet", "theirs")
		return map[string][]string{"use/use.go": {"Theirs"}, "extra/extra.go": {"undefinedExtra"}}
	}},
	{"git stash and pop", func(t *testing.T, w *world, round int) map[string][]string {
		if round == 0 {
			w.write(t, "lib/lib.go", stage.LibText("Stashed"))
			w.write(t, "own/untracked.go", "package own\n\nvar _ = undefinedUntracked\n")
			return map[string][]string{"use/use.go": {"Stashed"}, "own/untracked.go": {"undefinedUntracked"}}
		}
		if round%2 == 1 {
			w.git(t, "stash", "--quiet", "--include-untracked")
			return map[string][]string{"use/use.go": nil, "own/own.go": nil}
		}
		w.git(t, "stash", "pop", "--quiet")
		return map[string][]string{"use/use.go": {"Stashed"}, "own/untracked.go": {"undefinedUntracked"}}
	}},
}

// mainBranch is the branch on which the person's folder was committed.
func (w *world) mainBranch(t testing.TB) string {
	for _, name := range strings.Fields(strings.ReplaceAll(w.git(t, "branch"), "*", "")) {
		if name != "theirs" {
			return name
		}
	}
	t.Fatal("no branch")
	return ""
}

// Whatever the person does to the folder, the very next lint of a branch that
// has not overridden those paths is of it, every time; a branch that has is not
// touched, and neither is the folder.
func TestTheBaseChanges(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	plain := w.agent(t, attach{branch: "plain"})
	plain.edit(t, w.text("docs/notes.txt", "an override that has nothing to do with it\n"))
	holds := w.agent(t, attach{branch: "holds"})
	holds.edit(t, w.text("lib/lib.go", stage.LibText("Held")), w.text("use/use.go", module["use/use.go"]+"\n// Held as well.\n"), w.text("own/own.go", ownText("heldOwn")))
	for _, s := range savings {
		t.Run(s.name, func(t *testing.T) {
			t.Cleanup(func() { w.restore(t) })
			plain.clean(t, "use/use.go")
			for round := range rounds {
				want := s.do(t, w, round)
				before := w.Tree(t)
				for path, words := range want {
					if why := judge(plain.lint(t, path), words...); why != "" {
						t.Fatalf("round %d: %s: %s", round, path, why)
					}
				}
				if round%5 == 0 {
					holds.names(t, "use/use.go", "Held")
					holds.names(t, "own/own.go", "heldOwn")
				}
				w.Unchanged(t, before)
			}
		})
	}
	plain.clean(t, "use/use.go")
	if got := holds.file(t, "lib/lib.go"); got != stage.LibText("Held") {
		t.Errorf("the branch that overrides the file has %q", got)
	}
}

// restore makes the person's folder what was committed.
func (w *world) restore(t testing.TB) {
	t.Helper()
	w.git(t, "checkout", "--quiet", "--force", w.mainBranch(t))
	w.git(t, "clean", "-d", "--force", "--quiet", "-x")
	if w.git(t, "stash", "list") != "" {
		w.git(t, "stash", "drop", "--quiet")
	}
}

// What an agent that pulls, or one that is pushed to, is told when the person
// saves, without having asked.
func TestAgentsAreToldOfTheBase(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	refreshes := map[string]any{"workspace": map[string]any{"diagnostics": map[string]any{"refreshSupport": true}}}
	puller := w.agent(t, attach{branch: "pulls", capabilities: refreshes})
	pusher := w.agent(t, attach{branch: "pushed", push: true})
	puller.clean(t, "use/use.go")
	pusher.open(t, "use/use.go", module["use/use.go"], 1)
	pusher.hears(t, "a first publish", published(w.uri("use/use.go"), 1, ""))
	for round := range 5 {
		puller.forget()
		pusher.forget()
		word := fmt.Sprintf("Saved%d", round)
		w.write(t, "lib/lib.go", stage.LibText(word))
		puller.hears(t, "a refresh", func(m wire.Message) bool { return m.Method == "workspace/diagnostic/refresh" })
		puller.names(t, "use/use.go", word)
		pusher.hears(t, "a publish", published(w.uri("use/use.go"), 1, word))
	}
	w.restore(t)
}

// A save that is half done when a lint comes: the lint is of some moment, and
// the next one is of the end.
func TestSavesAndLintsAtTheSameTime(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	a.edit(t, w.text("docs/notes.txt", "x"))
	a.clean(t, "use/use.go")
	saved := make(chan error, 1)
	go func() { // ends after its saves
		for i := range 300 {
			if err := os.WriteFile(w.path("own/busy.go"), []byte("package own\n\n// Busy changes.\nvar Busy = undefinedBusy"+fmt.Sprint(i)+"\n"), 0o644); err != nil {
				saved <- err
				return
			}
		}
		saved <- nil
	}()
	for done := false; !done; {
		select {
		case err := <-saved:
			must(t, err)
			done = true
		default:
			a.clean(t, "use/use.go")
		}
	}
	a.names(t, "own/busy.go", "undefinedBusy299")
	must(t, os.Remove(w.path("own/busy.go")))
	a.clean(t, "own/own.go")
}

// More changes at once than the kernel remembers: nothing is stale after them.
func TestMoreChangesThanTheKernelRemembers(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	a.edit(t, w.text("docs/notes.txt", "x"))
	a.clean(t, "use/use.go")
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	must(t, err)
	if limit > 50_000 {
		need.Unmet(t, false, "the kernel remembers %d events here", limit)
	}
	daemon := stage.Observe(t, w.Daemon())
	for round := range 2 {
		word := fmt.Sprintf("Overflow%d", round)
		daemon.Signal(t, syscall.SIGSTOP)
		for i := range limit/2 + 100 { // at least two events each
			must(t, os.WriteFile(w.path("lib/a.ignored"), nil, 0o644))
			must(t, os.Rename(w.path("lib/a.ignored"), w.path(fmt.Sprintf("lib/%c.ignored", 'b'+i%2))))
		}
		w.write(t, "lib/lib.go", stage.LibText(word))
		daemon.Signal(t, syscall.SIGCONT)
		a.names(t, "use/use.go", word)
		w.write(t, "lib/lib.go", stage.LibText(word+"x"))
		a.names(t, "use/use.go", word+"x")
	}
	w.restore(t)
}

// The person's folder moved away and another in its place is nobody's branch any
// more: what an agent gets is an error, or the old folder; never a crash.
func TestTheRootIsMovedAway(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	a.edit(t, w.text("lib/lib.go", stage.LibText("Mine")))
	a.names(t, "use/use.go", "Mine")
	away := filepath.Join(w.top, "away")
	must(t, os.Rename(w.Dir, away))
	must(t, os.Mkdir(w.Dir, 0o755))
	_, err := a.tryLint(t.Context(), "use/use.go")
	t.Logf("a lint of a folder that was moved away: %v", err)
	must(t, os.Remove(w.Dir))
	must(t, os.Rename(away, w.Dir))
	a.names(t, "use/use.go", "Mine")
	if err := syscall.Kill(w.Daemon(), 0); err != nil {
		t.Errorf("the daemon: %v", err)
	}
}

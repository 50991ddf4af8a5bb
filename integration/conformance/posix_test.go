package conformance

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

// tableDiffers are the outcomes that are others than the disk's, and why that is
// right. The key is the beginning of the line.
var tableDiffers = map[string]string{
	"chown suid 2755, nothing changed":     "the kernel's FUSE does not pass on a chown that names neither",
	"chown suid 4711, nothing changed":     "the same",
	"chown suid 6555, nothing changed":     "the same",
	"exists mknod char 0/0":                "device 0/0 means a deletion in a layer (overlayfs refuses it too)",
	"link O_TMPFILE":                       "refused, so that programs take their other way: a layer's file has a name",
	"open block ":                          "devices are dead in the view (nodev): a branch must not reach a disk",
	"open char ":                           "the same",
	"other calls getflags":                 "chattr's flags are the disk's own",
	"rename whiteout":                      "only overlay file systems ask for it",
	"times times of chmod to the same dir": "a chmod that changes nothing is not worth a copy of what the base has",
	"times times of listing":               "FUSE has no time of access of directories: as with noatime",
}

// preparedDiffers are those of the second part.
var preparedDiffers = map[string]string{
	"base's block times of exchange with full":   "moving a directory leaves its ctime: it is its place that changed, not what is in it",
	"base's char times of exchange with full":    "the same",
	"base's dir times of exchange with":          "the same",
	"base's dir times of rename and back":        "the same",
	"base's dir times of rename full over":       "the same",
	"base's fifo times of exchange with full":    "the same",
	"base's regular times of exchange with full": "the same",
	"base's socket times of exchange with full":  "the same",
	"base's symlink times of exchange with full": "the same",
}

// TestTable runs the table of calls on the disk and in a view.
func TestTable(t *testing.T) {
	t.Parallel()
	need.Root(t)
	want := outcomes(t, native(t, openTemp(t), self(t, "table")))
	v := overRoot(t, openTemp(t))
	compare(t, outcomes(t, v.sh(self(t, "table"))), want, tableDiffers)
	if path := fuseOverlayfs(); path != "" {
		others(t, outcomes(t, beside(t, path, openTemp(t), self(t, "table"))), want)
	}
}

// TestTableOfTheBase runs its second part: on files that were there before.
func TestTableOfTheBase(t *testing.T) {
	t.Parallel()
	need.Root(t)
	disk, under, lower := openTemp(t), openTemp(t), openTemp(t)
	for _, root := range []string{disk, under, lower} {
		must(t, prepare(root))
		// Reading moves times of access; the folder under a view is read.
		_, err := stage.Read(root)
		must(t, err)
	}
	want := outcomes(t, native(t, disk, self(t, "prepared")))
	v := overRoot(t, under)
	compare(t, outcomes(t, v.sh(self(t, "prepared"))), want, preparedDiffers)
	if path := fuseOverlayfs(); path != "" {
		others(t, outcomes(t, beside(t, path, lower, self(t, "prepared"))), want)
	}
}

// compare reports every difference that is not listed, and what is listed and
// is none.
func compare(t *testing.T, got, want, listed map[string]string) {
	t.Helper()
	if len(got) < 500 || len(want) != len(got) {
		t.Errorf("%d outcomes in the view, %d on the disk", len(got), len(want))
	}
	reasons := slices.Sorted(maps.Keys(listed))
	used := map[string]bool{}
	differ := 0
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] == want[key] {
			continue
		}
		differ++
		i := slices.IndexFunc(reasons, func(p string) bool { return strings.HasPrefix(key, p) })
		if i < 0 {
			t.Errorf("%s: %s, on the disk %s", key, got[key], want[key])
			continue
		}
		used[reasons[i]] = true
	}
	for _, p := range reasons {
		if !used[p] {
			t.Errorf("listed, and not different: %s", p)
		}
	}
	t.Logf("%d outcomes, %d differ, for %d reasons", len(want), differ, len(used))
}

// fuseOverlayfs is the other file system, where it is installed and asked for.
func fuseOverlayfs() string {
	path, err := need.FindTool("fuse-overlayfs")
	if err != nil || os.Getenv(fullVariable) != "full" {
		return ""
	}
	return path
}

// others is how another file system does.
func others(t *testing.T, got, want map[string]string) {
	differ := 0
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			differ++
			if testing.Verbose() {
				t.Logf("fuse-overlayfs: %s: %s, on the disk %s", key, got[key], want[key])
			}
		}
	}
	t.Logf("fuse-overlayfs differs in %d", differ)
}

func outcomes(t *testing.T, out string) map[string]string {
	lines := map[string]string{}
	for line := range strings.Lines(out) {
		key, outcome, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			t.Fatalf("no outcome: %s", line)
		}
		lines[key] = outcome
	}
	return lines
}

// openTemp is a temporary folder that other users may reach.
func openTemp(t *testing.T) string {
	dir, err := os.MkdirTemp("", "conformance-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// beside runs a script in a fuse-overlayfs.
func beside(t *testing.T, program, lower, script string) string {
	top := openTemp(t)
	for _, d := range []string{"upper", "work", "on"} {
		must(t, os.Mkdir(filepath.Join(top, d), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "/bin/sh", "-euc",
		quote(program)+" -o lowerdir="+quote(lower)+",upperdir=upper,workdir=work,allow_other on >/dev/null 2>&1; (cd on; "+script+"); umount on")
	cmd.Dir, cmd.Env = top, environment()
	out, err := cmd.Output()
	if err != nil {
		t.Logf("fuse-overlayfs: %v", err)
	}
	return string(out)
}

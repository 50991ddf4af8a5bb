package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"shadowlsp/integration/need"
)

// pjdfstestVariable names a checkout of pjdfstest in which the program has been
// built. It is in no registry that scripts/setup could take it from.
const pjdfstestVariable = "SHADOWLSP_PJDFSTEST"

// pjdfstestDiffers are the files of it in which something fails here that does
// not on the disk, and why that is right.
var pjdfstestDiffers = map[string]string{}

// failedFiles finds what prove says of each file in which something failed.
var failedFiles = regexp.MustCompile(`(?m)^\S*?/tests/(\S+\.t)\s+\(Wstat.*\n(?:  .*\n)*`)

// TestPjdfstest is POSIX as pjdfstest has it, on the disk and in a view, and on
// fuse-overlayfs where that is installed.
func TestPjdfstest(t *testing.T) {
	top := os.Getenv(pjdfstestVariable)
	if top == "" {
		t.Skip("needs a built checkout of pjdfstest, named in " + pjdfstestVariable)
	}
	need.Root(t)
	need.Tool(t, "prove")
	script := "prove -rq " + quote(top+"/tests") + " 2>/dev/null || true"
	found := func(out string) map[string]string {
		failed := map[string]string{}
		for _, m := range failedFiles.FindAllStringSubmatch(out, -1) {
			failed[m[1]] = m[0]
		}
		t.Logf("%d files with failures; %s", len(failed), regexp.MustCompile(`Files=.*`).FindString(out))
		return failed
	}
	want := found(native(t, openTemp(t), script))
	got := found(overRoot(t, openTemp(t)).sh(script))
	for _, file := range slices.Sorted(maps.Keys(got)) {
		if got[file] != want[file] && pjdfstestDiffers[file] == "" {
			t.Errorf("in the view:\n%son the disk:\n%s", got[file], want[file])
		}
	}
	if path := fuseOverlayfs(); path != "" {
		for _, said := range found(beside(t, path, openTemp(t), script)) {
			t.Logf("fuse-overlayfs: %s", said)
		}
	}
}

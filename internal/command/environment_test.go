package command

import (
	"slices"
	"testing"
)

// Caches of the home are replaced unless the person shares them; everything else
// stays as it is.
func TestEnvironment(t *testing.T) {
	shared := t.TempDir()
	k := &keeper{host: &Host{cfg: Config{Caches: "/state/caches", Write: []string{shared}}}, key: key{branch: "b"}, socket: "/run/b/1"}
	got := k.environment(Command{Env: []string{
		"HOME=/home/p", "A=1", "TMPDIR=/x", "GOCACHE=" + shared + "/go", "PIP_CACHE_DIR=/home/p/pip", "A=2", "SHADOWLSP_BRANCH=other",
	}, Write: []string{"/home/p/.npm"}})
	want := []string{
		"HOME=/home/p", "A=1", "GOCACHE=" + shared + "/go", "A=2",
		"CCACHE_DIR=/state/caches/ccache", "GIT_OPTIONAL_LOCKS=0", "PIP_CACHE_DIR=/state/caches/pip", "SHADOWLSP_AGENT=/run/b/1", "SHADOWLSP_BRANCH=b",
		"XDG_CACHE_HOME=/state/caches/xdg", "YARN_CACHE_FOLDER=/state/caches/yarn",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

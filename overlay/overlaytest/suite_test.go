package overlaytest

import (
	"os"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/overlay"
)

// TestPlainDirectory proves the suite on what it describes.
func TestPlainDirectory(t *testing.T) {
	Run(t, Suite{Open: func(t *testing.T, base string) FS { return OnDir(base) }, Plain: true})
}

func TestBranch(t *testing.T) {
	Run(t, Suite{Open: func(t *testing.T, base string) FS {
		return OnBranch(branch(t, overlay.Options{Base: base, State: t.TempDir()}))
	}})
}

// TestFork runs the cases on a branch three layers up.
func TestFork(t *testing.T) {
	Run(t, Suite{Open: func(t *testing.T, base string) FS {
		b := branch(t, overlay.Options{Base: base, State: t.TempDir()})
		for _, name := range []string{"second", "third"} {
			// Something in each layer, and nothing that shows.
			if _, err := b.Mkdir("dir/tmp", 0o755, overlay.Origin{}); err != nil {
				t.Fatal(err)
			}
			if err := b.Rmdir("dir/tmp", overlay.Origin{}); err != nil {
				t.Fatal(err)
			}
			next, err := b.Fork(name, false)
			if err != nil {
				t.Fatal(err)
			}
			b = next
		}
		return OnBranch(b)
	}})
}

// TestMemory runs the cases with the layers on tmpfs.
func TestMemory(t *testing.T) {
	const shm = "/dev/shm"
	if _, err := os.Stat(shm); err != nil {
		need.Unmet(t, true, "no tmpfs: %v", err)
	}
	Run(t, Suite{Open: func(t *testing.T, base string) FS {
		dir, err := os.MkdirTemp(shm, "overlaytest")
		if err != nil {
			need.Unmet(t, true, "no room on tmpfs: %v", err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return OnBranch(branch(t, overlay.Options{Base: base, State: dir}))
	}})
}

func branch(t *testing.T, o overlay.Options) *overlay.Branch {
	s, repairs, err := overlay.Open(o)
	if err != nil || len(repairs) > 0 {
		t.Fatal(err, repairs)
	}
	t.Cleanup(func() { s.Close() })
	b, err := s.Create("b", overlay.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

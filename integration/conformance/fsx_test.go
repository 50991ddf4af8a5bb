package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"shadowlsp/integration/need"
)

// One file, and everything that can be done to its bytes, in random order,
// against a slice in memory.

func init() { inside["fsx"] = fsx }

// maxFsx is how long the file gets: some pages, and no multiple of one.
const maxFsx = 256<<10 + 77

type exerciser struct {
	path string
	rnd  *rand.Rand
	fd   int
	want []byte
	last []string // what was done last, for the report
}

// fsx PATH SEED STEPS
func fsx(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	steps, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	x := &exerciser{path: args[0], rnd: rand.New(rand.NewPCG(seed, 1)), fd: -1}
	if x.want, err = os.ReadFile(x.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := x.reopen(); err != nil {
		return err
	}
	for i := range steps {
		if err := x.step(); err != nil {
			return fmt.Errorf("seed %d, step %d: %w\nlast: %v", seed, i, err, x.last)
		}
	}
	if err := x.reopen(); err != nil {
		return err
	}
	if err := x.check(0, len(x.want)); err != nil {
		return fmt.Errorf("seed %d, at the end: %w", seed, err)
	}
	fmt.Println(steps, "steps")
	return nil
}

func (x *exerciser) reopen() (err error) {
	if x.fd >= 0 {
		unix.Close(x.fd)
	}
	x.fd, err = unix.Open(x.path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	return err
}

// extent is a random piece of a file of at most limit bytes.
func (x *exerciser) extent(limit int) (off, n int) {
	off = x.rnd.IntN(limit)
	n = 1 + x.rnd.IntN(min(limit-off, 1+x.rnd.IntN(40<<10)))
	if x.rnd.IntN(4) == 0 { // on a page
		off &^= 4095
	}
	return off, n
}

func (x *exerciser) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + x.rnd.IntN(26))
	}
	return b
}

// put is what a write does to the model.
func (x *exerciser) put(off int, data []byte) {
	x.resize(max(len(x.want), off+len(data)))
	copy(x.want[off:], data)
}

func (x *exerciser) resize(n int) {
	if n <= len(x.want) {
		x.want = x.want[:n:n]
		return
	}
	x.want = append(x.want, make([]byte, n-len(x.want))...)
}

func (x *exerciser) did(format string, args ...any) {
	x.last = append(x.last[max(0, len(x.last)-12):], fmt.Sprintf(format, args...))
}

func (x *exerciser) check(off, n int) error {
	got := make([]byte, n)
	m := 0
	for m < n {
		k, err := unix.Pread(x.fd, got[m:], int64(off+m))
		if err != nil {
			return err
		}
		if k == 0 {
			break
		}
		m += k
	}
	want := x.want[min(off, len(x.want)):min(off+n, len(x.want))]
	return differ("read", off, got[:m], want)
}

func differ(what string, off int, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s at %d: %d bytes, want %d", what, off, len(got), len(want))
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	return fmt.Errorf("%s at %d: byte %d is %q, want %q", what, off, off+i, got[i], want[i])
}

func (x *exerciser) step() error {
	switch op := x.rnd.IntN(17); op {
	case 0, 1, 2:
		off, n := x.extent(maxFsx)
		x.did("read %d+%d", off, n)
		return x.check(off, n)
	case 3, 4:
		off, n := x.extent(maxFsx)
		data := x.noise(n)
		x.did("write %d+%d", off, n)
		if _, err := unix.Pwrite(x.fd, data, int64(off)); err != nil {
			return err
		}
		x.put(off, data)
	case 5:
		n := x.rnd.IntN(maxFsx)
		x.did("truncate %d", n)
		x.resize(n)
		if x.rnd.IntN(2) == 0 {
			return unix.Ftruncate(x.fd, int64(n))
		}
		return unix.Truncate(x.path, int64(n))
	case 6, 7, 8:
		return x.mapped(op > 6)
	case 9, 10, 11:
		return x.allocate(op)
	case 12:
		x.did("reopen")
		return x.reopen()
	case 13:
		if x.rnd.IntN(2) == 0 {
			x.did("fsync")
			return unix.Fsync(x.fd)
		}
		x.did("drop caches")
		return unix.Fadvise(x.fd, 0, 0, unix.FADV_DONTNEED)
	case 14:
		var st unix.Stat_t
		if err := unix.Stat(x.path, &st); err != nil {
			return err
		}
		if int(st.Size) != len(x.want) {
			return fmt.Errorf("stat: %d bytes, want %d", st.Size, len(x.want))
		}
	case 15:
		return x.append()
	case 16:
		return x.copyWithin()
	}
	return nil
}

func (x *exerciser) mapped(write bool) error {
	if len(x.want) == 0 {
		return nil
	}
	off, n := x.extent(len(x.want))
	n = min(n, len(x.want)-off)
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	from := off &^ 4095
	m, err := unix.Mmap(x.fd, int64(from), off-from+n, prot, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(m)
	x.did("mmap %d+%d, writing %v", off, n, write)
	if err := differ("mapping", off, m[off-from:], x.want[off:off+n]); err != nil || !write {
		return err
	}
	data := x.noise(n)
	copy(m[off-from:], data)
	x.put(off, data)
	if x.rnd.IntN(2) == 0 {
		return unix.Msync(m, unix.MS_SYNC)
	}
	return nil
}

func (x *exerciser) allocate(op int) error {
	off, n := x.extent(maxFsx)
	mode := map[int]uint32{9: 0, 10: unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, 11: unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE}[op]
	x.did("fallocate %#x %d+%d", mode, off, n)
	if err := unix.Fallocate(x.fd, mode, int64(off), int64(n)); err != nil {
		if err == unix.EOPNOTSUPP {
			return nil
		}
		return err
	}
	if mode == 0 {
		x.resize(max(len(x.want), off+n))
		return nil
	}
	for i := off; i < min(off+n, len(x.want)); i++ {
		x.want[i] = 0
	}
	return nil
}

func (x *exerciser) append() error {
	if len(x.want) > maxFsx {
		return nil
	}
	data := x.noise(1 + x.rnd.IntN(5000))
	x.did("append %d", len(data))
	fd, err := unix.Open(x.path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	x.put(len(x.want), data)
	_, err = unix.Write(fd, data)
	return err
}

func (x *exerciser) copyWithin() error {
	if len(x.want) < 2 {
		return nil
	}
	half := len(x.want) / 2
	from, n := x.extent(half)
	n = min(n, half-from)
	to := half + x.rnd.IntN(half)
	if n <= 0 {
		return nil
	}
	in, out := int64(from), int64(to)
	x.did("copy %d+%d to %d", from, n, to)
	m, err := unix.CopyFileRange(x.fd, &in, x.fd, &out, n, 0)
	if err != nil {
		return err
	}
	x.put(to, bytes.Clone(x.want[from:from+m]))
	return nil
}

// TestOneFile exercises a file of the base and one of a layer. Some seeds run in
// one view one after the other, with switches to another branch in between.
func TestOneFile(t *testing.T) {
	t.Parallel()
	need.Root(t)
	seeds, steps := 2, 1500
	if os.Getenv(fullVariable) == "full" {
		seeds, steps = 20, 10000
	}
	v := over(t, map[string]string{"base": string(bytes.Repeat([]byte("0123456789"), 20000))})
	other := v.create("other")
	v.agent(other, "base", "other's")
	native(t, t.TempDir(), self(t, "fsx", "file", "1", strconv.Itoa(steps)))
	for seed := range seeds {
		for _, file := range []string{"base", "layer"} {
			v.sh(self(t, "fsx", file, strconv.Itoa(seed), strconv.Itoa(steps)))
		}
		v.switchTo(other)
		if got := v.sh("cat base; ls"); got != "other'sbase\n" {
			t.Errorf("the other branch: %.100q", got)
		}
		v.switchTo(v.branch)
	}
}

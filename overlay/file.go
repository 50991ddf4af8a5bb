package overlay

import (
	"os"

	"golang.org/x/sys/unix"
)

// File is a layer's file, open for writing. It must be closed: an open File
// moves with its branch when the layer is frozen. Files are pinned while open.
type File struct {
	*os.File
	node Node
}

// Node is the version that is written.
func (f *File) Node() Node { return f.node }

// Close closes the file and ends its pin.
func (f *File) Close() error {
	if err := f.File.Close(); err != nil {
		return err // closed twice: the pin has ended
	}
	f.node.file.unpin(true)
	return nil
}

// Wrote says that data went through the file (also by mapping or
// passthrough): stamp, revision and state count it, subscribers hear of it.
// Call it before the write is acknowledged to the program.
func (f *File) Wrote(by Origin) {
	b := f.node.branch
	l := f.node.file.holdAlone()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil {
		f.node.file.wrote(b, l, &st, by)
	}
	l.mu.Unlock()
	b.flush()
}

// wrote counts new bytes in place. Needs l's mutex, exclusively.
func (f *file) wrote(b *Branch, l *layer, st *unix.Stat_t, by Origin) {
	f.recharge(l, st)
	if len(f.names) == 0 || l.dead {
		f.stamp = l.store.serial()
		return
	}
	if mtime := timeOfSpec(st.Mtim); !f.base.IsZero() && mtime.Sec == f.base.Sec {
		// The program wrote in the very second in which the base file was
		// written; whoever compares whole seconds would take one for the other.
		f.setMtime(l, l.store.fresh(mtime, true, f.base))
	}
	f.changed(l, l.store.unique())
	b.announce(l, f, OpWrite, by)
}

// setMtime sets the real mtime. Best effort. Needs l's mutex.
func (f *file) setMtime(l *layer, t Time) {
	if at, ok := f.at(); ok {
		l.at(at, func(dir int, name string) error {
			ts := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, t.spec()}
			return unix.UtimesNanoAt(dir, name, ts[:], unix.AT_SYMLINK_NOFOLLOW)
		})
	}
	f.born = later(f.born, t)
}

// changed gives f a new stamp and content identity. Needs l's mutex, exclusively.
func (f *file) changed(l *layer, cid StateID) {
	f.stamp, f.cid = l.store.serial(), cid
	for _, e := range f.names {
		l.setSum(e, share(e.path(), fileEntry, f.mode|f.perm, cid))
	}
}

// recharge counts what f takes now.
func (f *file) recharge(l *layer, st *unix.Stat_t) {
	n := weight(st)
	l.charge(n - f.size)
	f.size = n
}

// weight is the bytes that a file is charged. Holes are free; st_blocks alone
// would make small and not yet written files look empty.
func weight(st *unix.Stat_t) int64 {
	const slack = 1 << 20
	if !isReg(st.Mode) {
		return 0
	}
	if used := st.Blocks * 512; used < st.Size-slack {
		return used
	}
	return st.Size
}

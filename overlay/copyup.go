package overlay

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// own gives the file at path to the top layer, copied up if need be, without
// its bytes if truncate. Needs write. IsDir for a directory.
func (b *Branch) own(path string, truncate bool, by Origin) (*file, error) {
	for try := 0; ; try++ {
		var h hit
		n, err := b.resolve(path, &h)
		if err != nil {
			return nil, err
		}
		if n.IsDir() {
			return nil, kindError(IsDir)
		}
		if n.file != nil && h.layer == b.top() {
			return n.file, nil
		}
		f, err := b.copyUp(path, n, truncate, by)
		if KindOf(err) != Stale || try == staleTries {
			return f, err
		}
	}
}

// copyUp copies what n shows to the top layer. Nobody sees it before it is
// complete. Needs write, and no other lock: this may copy gigabytes.
func (b *Branch) copyUp(path string, n Node, truncate bool, by Origin) (*file, error) {
	size := int64(entryCost)
	if !truncate {
		size += weightOf(n.Attr)
	}
	if err := b.store.room(size); err != nil {
		return nil, err
	}
	if n.inBase {
		if err := b.remember(n.base); err != nil {
			return nil, err
		}
	}
	if err := b.clearBare(path); err != nil {
		return nil, err
	}
	dir, name := split(path)
	parent, err := b.dirEntry(dir)
	if err != nil {
		return nil, err
	}
	f := b.newFile(n.Attr.Mode, n.Attr.Ino)
	f.opened.Store(true) // under the mtime that it keeps
	if n.file == nil {
		f.base = n.Attr.Mtime
	} else {
		f.base = n.file.base
	}
	top := b.top()
	tmp := top.temp()
	if err := b.copyTo(tmp, n, truncate); err != nil {
		top.discard(tmp)
		return nil, err
	}
	b.store.step("copied")
	var st unix.Stat_t
	if err := top.stat(tmp, &st); err != nil {
		return nil, err
	}
	top.mu.Lock()
	defer top.mu.Unlock()
	if err := top.rename(tmp, path, 0); err != nil {
		top.discard(tmp)
		return nil, err
	}
	f.recharge(top, &st)
	times := *parent.dir
	b.enterIndex(parent, &entry{name: name, kind: fileEntry, file: f})
	// No name came or went: the directory keeps its times.
	parent.dir.mtime, parent.dir.ctime, parent.dir.set, parent.dir.stamp = times.mtime, times.ctime, times.set, times.stamp
	b.changed(path, OpCopyUp, by)
	return f, nil
}

func weightOf(a Attr) int64 {
	return weight(&unix.Stat_t{Mode: a.Mode, Size: a.Size, Blocks: a.Blocks})
}

// copyTo makes a copy of n with all its attributes at a place in the top's work directory.
func (b *Branch) copyTo(tmp string, n Node, truncate bool) error {
	top := b.top()
	switch {
	case isReg(n.Attr.Mode):
		return b.copyFile(tmp, n, truncate)
	case isLnk(n.Attr.Mode):
		target, err := n.readlink()
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(target, top.fd, tmp); err != nil {
			return err
		}
	default:
		if err := unix.Mknodat(top.fd, tmp, n.Attr.Mode, int(n.Attr.Rdev)); err != nil {
			return err
		}
	}
	return top.settle(tmp, &n.Attr)
}

// tornTries bounds how often a file is copied again because it was written
// meanwhile. After that the copy is what a reader would have got.
const tornTries = 3

func (b *Branch) copyFile(tmp string, n Node, truncate bool) error {
	src, err := n.open(true)
	if err != nil {
		return err
	}
	defer src.Close()
	top := b.top()
	fd, err := unix.Openat(top.fd, tmp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(fd), tmp)
	defer dst.Close()
	a := n.Attr
	for try := 0; !truncate && try < tornTries; try++ {
		var before, after unix.Stat_t
		if err := unix.Fstat(int(src.Fd()), &before); err != nil {
			return err
		}
		if err := copyData(dst, src, before.Size); err != nil {
			return err
		}
		if err := unix.Fstat(int(src.Fd()), &after); err != nil {
			return err
		}
		if before.Size == after.Size && before.Mtim == after.Mtim {
			break
		}
		a.Mtime = timeOfSpec(after.Mtim)
	}
	if err := copyXattrs(procPath(int(src.Fd())), procPath(int(dst.Fd()))); err != nil {
		return err
	}
	if truncate {
		base, _ := b.store.baseMtime(n.Path)
		a.Mtime = b.store.fresh(n.Attr.Mtime, true, base)
	}
	return top.settle(tmp, &a)
}

// copyData makes dst hold what src holds, holes as holes, shared extents where
// the file system can.
func copyData(dst, src *os.File, size int64) error {
	from, to := int(src.Fd()), int(dst.Fd())
	if unix.IoctlFileClone(to, from) == nil {
		return nil
	}
	if err := unix.Ftruncate(to, 0); err != nil {
		return err
	}
	if err := unix.Ftruncate(to, size); err != nil {
		return err
	}
	for off := int64(0); off < size; {
		data, err := unix.Seek(from, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil // only a hole is left
		}
		end := size
		if err != nil {
			data = off // a file system without holes
		} else if hole, err := unix.Seek(from, data, unix.SEEK_HOLE); err == nil {
			end = min(hole, size)
		}
		if err := copyRange(to, from, data, end); err != nil {
			return err
		}
		off = max(end, data+1)
	}
	return nil
}

func copyRange(to, from int, off, end int64) error {
	for off < end {
		r, w := off, off
		n, err := unix.CopyFileRange(from, &r, to, &w, int(min(end-off, 1<<30)), 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return copySlow(to, from, off, end)
		}
		off += int64(n)
	}
	return nil
}

// copySlow reads and writes, where the kernel cannot copy between the two.
func copySlow(to, from int, off, end int64) error {
	buf := make([]byte, 256<<10)
	for off < end {
		n, err := unix.Pread(from, buf[:min(end-off, int64(len(buf)))], off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return nil // shrank meanwhile
		}
		for done := 0; done < n; {
			m, err := unix.Pwrite(to, buf[done:n], off+int64(done))
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			if m == 0 {
				return io.ErrShortWrite
			}
			done += m
		}
		off += int64(n)
	}
	return nil
}

// OpenWrite opens a regular file for reading and writing, copied up to the top
// layer where it is not there yet; the node returned is the one written.
// truncate empties it first (and counts as written).
func (b *Branch) OpenWrite(path string, truncate bool, by Origin) (n Node, f *File, err error) {
	err = b.mutate("open for writing", path, func() error {
		var h hit
		n, err = b.resolve(path, &h)
		switch {
		case err != nil:
			return err
		case n.IsDir():
			return kindError(IsDir)
		case !isReg(n.Attr.Mode):
			return kindError(Invalid)
		}
		copied := n.file == nil || h.layer != b.top()
		if copied {
			if _, err = b.own(path, truncate, by); err != nil {
				return err
			}
			if n, err = b.nodeAt(path); err != nil {
				return err
			}
		}
		flags := 0
		if truncate && !copied {
			flags = unix.O_TRUNC
		}
		if f, err = n.openWrite(flags); err != nil {
			return err
		}
		if truncate {
			f.wroteNow(by)
			n, err = b.nodeAt(path)
			f.node = n
		}
		return err
	})
	return n, f, err
}

// wroteNow is Wrote within a mutator, which flushes.
func (f *File) wroteNow(by Origin) {
	l := f.node.file.holdAlone()
	defer l.mu.Unlock()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil {
		f.node.file.wrote(f.node.branch, l, &st, by)
	}
}

// OpenUnlinked is OpenWrite for a file that has lost its name while a view
// still has it open: a private copy of n's content without a name, which lives
// as long as the File (pin the node to keep it longer).
func (b *Branch) OpenUnlinked(n Node) (Node, *File, error) {
	var f *File
	err := b.locked(func() error {
		if !isReg(n.Attr.Mode) {
			return kindError(Invalid)
		}
		top := b.top()
		if err := top.make(); err != nil {
			return err
		}
		if err := b.store.room(entryCost + weightOf(n.Attr)); err != nil {
			return err
		}
		at := top.graveName()
		if err := b.copyFile(at, n, false); err != nil {
			top.discard(at)
			return err
		}
		fd, err := top.openAt(at, unix.O_RDWR)
		if err != nil {
			top.discard(at)
			return err
		}
		file := b.newFile(n.Attr.Mode, n.Attr.Ino)
		file.grave = at
		copied := Node{Path: n.Path, Version: file.version, Stamp: file.stamp, branch: b, file: file}
		top.mu.Lock()
		defer top.mu.Unlock()
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return err
		}
		file.recharge(top, &st)
		copied.Attr = file.attr(&st)
		n, f = copied, copied.opened(top, fd)
		return nil
	})
	return n, f, b.wrap("open for writing", n.Path, err)
}

// Wrote is [File.Wrote] by path. Without effect where the top layer has no such file.
func (b *Branch) Wrote(path string, by Origin) {
	var h hit
	n, err := b.resolve(path, &h)
	if err != nil || n.file == nil {
		return
	}
	l := n.file.holdAlone()
	var st unix.Stat_t
	if at, err := n.file.reach(l); err == nil && !l.frozen && l.stat(at, &st) == nil {
		n.file.wrote(b, l, &st, by)
	}
	l.mu.Unlock()
	b.flush()
}

package conformance

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setIDs makes the calling thread somebody else's for good. The wrappers of
// package unix would change all threads.
func setIDs(uid, gid int, groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); no != 0 {
		return no
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); no != 0 {
		return no
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); no != 0 {
		return no
	}
	return nil
}

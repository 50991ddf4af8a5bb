package fusefs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// kernelVersion is the running kernel's; 0.0 if it does not say.
func kernelVersion() (major, minor int) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0, 0
	}
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major, minor
}

// keepsAbsence says that the kernel goes on believing that there is no such name
// when it is told otherwise, as 6.19 to 7.1 do. It is not to be left with any.
func keepsAbsence() bool {
	major, minor := kernelVersion()
	return major == 6 && minor >= 19 || major == 7 && minor <= 1
}

// waitsForListings says whether the kernel reads directories without opening
// them (5.1), and waits, for a notification of any name in a directory, until
// nobody is reading it. Since 6.19 it goes about names that it does not know
// another way, which has changed twice since then, and in its newest form does
// not wait.
func waitsForListings(in *fuse.InitIn) bool {
	major, minor := kernelVersion()
	return in.Flags64()&fuse.CAP_NO_OPENDIR_SUPPORT != 0 && (major < 6 || major == 6 && minor < 19)
}

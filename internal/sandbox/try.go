package sandbox

import "golang.org/x/sys/unix"

// tryAttr and tryName are fusefs's, which says what they mean.
const (
	tryAttr = "user.shadowlsp.try"
	tryName = ".shadowlsp-try"
)

// maxTries is more than any view asks for.
const maxTries = 8

// tryKernel looks into a view as long as it asks for that, so that it learns what
// the kernel may be let keep.
func tryKernel(mount string) {
	if mount == "" {
		return
	}
	value, names := make([]byte, 1), make([]byte, 4096)
	for range maxTries {
		if n, err := unix.Getxattr(mount, tryAttr, value); err != nil || n == 0 {
			return
		}
		unix.Lstat(mount+"/"+tryName, &unix.Stat_t{})
		if fd, err := unix.Open(mount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			unix.ReadDirent(fd, names)
			unix.Close(fd)
		}
	}
}

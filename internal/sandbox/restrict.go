package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// rootDrops are the capabilities that a program run by root gives up; the
// package documentation says why these.
var rootDrops = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}

// confinedDrops are what a command run by root gives up besides: what reaches
// the machine around its namespaces, and what lifts its limits.
var confinedDrops = []uintptr{
	unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_BOOT, unix.CAP_SYS_TIME, unix.CAP_SYS_PACCT, unix.CAP_SYSLOG,
	unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN, unix.CAP_MAC_ADMIN, unix.CAP_MAC_OVERRIDE,
	unix.CAP_AUDIT_CONTROL, unix.CAP_SYS_RESOURCE,
}

// restrict takes the program's rights from the calling thread, which must be
// locked: what it forks next has the same. Landlock comes after it (guard).
func restrict(spec *initSpec) *Error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &Error{Op: "set no_new_privs", Kind: Namespace, Err: err}
	}
	drops := rootDrops
	if spec.Confine != nil {
		drops = slices.Concat(rootDrops, confinedDrops)
	}
	if spec.NoNamespaces && !hasCap(unix.CAP_SETPCAP) {
		return nil // an ordinary user's program has nothing to lose
	}
	if spec.UserNS {
		// In its own namespace the program has no business with any.
		drops = nil
		for c := range uintptr(64) {
			if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil {
				break
			}
			drops = append(drops, c)
		}
	}
	// The bounding set first: dropping from it takes CAP_SETPCAP. It is what
	// exec gives back to a program of uid 0.
	for _, c := range drops {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return &Error{Op: "drop from the bounding set", Kind: Namespace, Err: err}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return &Error{Op: "clear ambient capabilities", Kind: Namespace, Err: err}
	}
	return dropCaps(drops)
}

// hasCap says whether this thread has a capability.
func hasCap(c uint) bool {
	var data [2]unix.CapUserData
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capget(&hdr, &data[0]) == nil && data[c/32].Effective&(1<<(c%32)) != 0
}

func dropCaps(drops []uintptr) *Error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return &Error{Op: "capget", Kind: Namespace, Err: err}
	}
	for _, c := range drops {
		bit := uint32(1) << (c % 32)
		d := &data[c/32]
		d.Effective &^= bit
		d.Permitted &^= bit
		d.Inheritable &^= bit
	}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return &Error{Op: "capset", Kind: Namespace, Err: err}
	}
	return nil
}

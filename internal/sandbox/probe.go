package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shadowlsp/internal/parcel"
)

// Ability is one thing that the kernel or the machine's set-up gives or not.
type Ability struct {
	Name string
	OK   bool
	// Detail is what was seen.
	Detail string
	// Lost is what does not work without it, and Remedy what a person can do;
	// both "" when OK.
	Lost, Remedy string
}

// Abilities are what Probe found, all tested for real.
type Abilities struct {
	Device    Ability // /dev/fuse can be opened
	UserNS    Ability // user namespaces, with the right to mount in them
	PIDNS     Ability // pid namespaces
	FreshProc Ability // a /proc of the namespace's own
	Mount     Ability // FUSE can be mounted, and the kernel speaks to us over it
	Landlock  Ability // a program can be kept from writing to a folder
	// Fusermount: a view can be mounted where everybody sees it, at another path.
	Fusermount Ability
}

// All lists them in the order in which they depend on each other.
func (a Abilities) All() []Ability {
	return []Ability{a.Device, a.UserNS, a.PIDNS, a.FreshProc, a.Mount, a.Fusermount, a.Landlock}
}

// probeLimit bounds one probing process; a healthy one takes milliseconds.
const probeLimit = 10 * time.Second

// Probe tries each ability in a process that vanishes again. It takes some ten
// milliseconds.
func Probe() Abilities {
	var a Abilities
	a.Device = probeDevice()
	a.Fusermount = probeFusermount()
	if bare, err := probeIn(Spec{NoView: true, NoNamespaces: true, NoPIDNamespace: true}); err != nil {
		a.Landlock = landlockAbility(err.Error())
	} else {
		a.Landlock = landlockAbility(bare.Landlock)
	}
	userNS := NeedsUserNS()
	full, err := probeIn(Spec{UserNS: userNS})
	if err != nil {
		// Which of the namespaces is it?
		_, userErr := probeIn(Spec{UserNS: userNS, NoPIDNamespace: true})
		a.UserNS = userNSAbility(userNS, userErr)
		a.PIDNS = pidNSAbility(err)
		if userErr != nil {
			a.PIDNS.Detail = "not tried: it takes a user namespace first"
		}
		a.FreshProc = freshProcAbility("not tried: it takes a pid namespace first")
		a.Mount = mountAbility("not tried: it takes a mount namespace first")
		return a
	}
	a.UserNS = userNSAbility(userNS, full.userNS())
	a.PIDNS = pidNSAbility(nil)
	a.FreshProc = freshProcAbility(full.FreshProc)
	a.Mount = mountAbility(full.Mount)
	return a
}

func probeDevice() Ability {
	a := Ability{Name: "fuse device", OK: true, Detail: "/dev/fuse can be opened"}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return a
	}
	a.OK, a.Detail = false, "open /dev/fuse: "+err.Error()
	a.Lost = "there is no shadow folder: servers and commands see the person's files, and an agent's edits only as open documents"
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		a.Remedy = "load the module (modprobe fuse); in a container, pass the device in (--device /dev/fuse)"
	case errors.Is(err, unix.EPERM):
		a.Remedy = "the container's device rules forbid it: pass the device in (--device /dev/fuse)"
	default:
		a.Remedy = "let ordinary users open it (chmod 0666 /dev/fuse, or the udev rule of the fuse3 package)"
	}
	return a
}

func userNSAbility(needed bool, err error) Ability {
	a := Ability{Name: "user namespace", OK: err == nil, Detail: "a process can enter one and mount in it"}
	if !needed {
		a.Detail = "not needed: this user may mount"
	}
	if err == nil {
		return a
	}
	a.Detail = err.Error()
	a.Lost = "the shadow folder cannot stand at the person's own path"
	a.Remedy = userNSRemedy()
	return a
}

// userNSRemedy looks for the switch that is off.
func userNSRemedy() string {
	number := func(path string) string {
		text, _ := os.ReadFile(path)
		return strings.TrimSpace(string(text))
	}
	switch {
	case number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor keeps user namespaces without rights: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give this binary a profile with “userns,”"
	case number("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "sysctl kernel.unprivileged_userns_clone=1"
	case number("/proc/sys/user/max_user_namespaces") == "0":
		return "sysctl user.max_user_namespaces=15000"
	}
	return "in a container, allow unshare(2) and mount(2) (its seccomp profile forbids them), or run as root with CAP_SYS_ADMIN"
}

func pidNSAbility(err error) Ability {
	a := Ability{Name: "pid namespace", OK: err == nil, Detail: "everything that a command starts ends with it"}
	if err == nil {
		return a
	}
	a.Detail = err.Error()
	a.Lost = "a program that daemonises, or kills its supervisor, can outlive its command; processes outside are visible and can be signalled"
	a.Remedy = "sysctl user.max_pid_namespaces=15000; in a container, allow clone(CLONE_NEWPID)"
	return a
}

func freshProcAbility(problem string) Ability {
	a := Ability{Name: "fresh /proc", OK: problem == "", Detail: "/proc shows the namespace's own processes"}
	if problem == "" {
		return a
	}
	a.Detail = problem
	a.Lost = "programs see foreign process numbers in /proc, and ps shows processes outside"
	a.Remedy = "in a container, leave /proc unmasked (--security-opt systempaths=unconfined)"
	return a
}

func mountAbility(problem string) Ability {
	a := Ability{Name: "fuse mount", OK: problem == "", Detail: "the kernel mounts it and speaks to us over it"}
	if problem == "" {
		return a
	}
	a.Detail = problem
	a.Lost = "there is no shadow folder"
	a.Remedy = "see the abilities above; FUSE in user namespaces takes Linux 4.18 or newer"
	return a
}

// probed is what a probing init saw.
type probed struct {
	Private   string // "" or why mounts could not be made private
	FreshProc string
	Mount     string
	Landlock  string
}

func (p probed) userNS() error {
	if p.Private == "" {
		return nil
	}
	return errors.New(p.Private)
}

// probeIn runs a probing init in the namespaces of spec.
func probeIn(spec Spec) (probed, error) {
	spec.Argv, spec.Mount = []string{"probe"}, "/"
	p, err := launchInit(spec, true)
	if err != nil {
		return probed{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { p.Kill() })
	defer stop()
	var got probed
	files, err := parcel.Receive(p.conn, &got)
	if err != nil {
		p.Kill()
		p.body.wait()
		return probed{}, &Error{Op: "probe", Kind: Lost, Err: err}
	}
	if len(files) > 0 {
		got.Mount = greet(files[0])
		parcel.Close(files)
	}
	p.conn.Close()
	p.body.wait()
	return got, nil
}

// greet reads the kernel's first request from a new mount, which is there from
// the moment of mounting.
func greet(fuse *os.File) string {
	const opInit, headerSize = 26, 40
	buf := make([]byte, 64<<10) // the kernel wants room for any request
	n, err := unix.Read(int(fuse.Fd()), buf)
	switch {
	case err != nil:
		return "read /dev/fuse: " + err.Error()
	case n < headerSize || buf[4] != opInit:
		return fmt.Sprintf("the kernel's first request has %d bytes and code %d", n, buf[4])
	}
	return ""
}

// probe is the init's side.
func (in *initProcess) probe() {
	var got probed
	if in.spec.NoNamespaces {
		if err := probeLandlock(); err != nil {
			got.Landlock = err.Error()
		}
		parcel.Send(in.conn, got)
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		got.Private = "make mounts private: " + err.Error()
		got.FreshProc, got.Mount = "not tried", "not tried"
		parcel.Send(in.conn, got)
		return
	}
	if in.spec.NoPIDNamespace {
		got.FreshProc = "not tried"
	} else if err := mountProc(); err != nil {
		got.FreshProc = "mount proc: " + err.Error()
	}
	// Any directory will do: only this process sees it, and nobody looks in.
	fd, failed := mountFuse("/dev", in.spec.UserNS)
	if failed != nil {
		got.Mount = failed.Error()
	}
	if fd >= 0 {
		parcel.Send(in.conn, got, fd)
		unix.Close(fd)
	} else {
		parcel.Send(in.conn, got)
	}
	// Stay until the other side has read: the mount ends with this process, and
	// a read would find it gone.
	parcel.Receive(in.conn, &order{})
}

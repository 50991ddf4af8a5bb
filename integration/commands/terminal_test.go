package commands

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pair: the person's side, and what a program runs in.
func terminal(t *testing.T, rows, columns uint16) (person, program *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must(t, err)
	person = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { person.Close() })
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { program.Close() })
	resize(t, person, rows, columns)
	return person, program
}

func resize(t *testing.T, person *os.File, rows, columns uint16) {
	t.Helper()
	raw, err := person.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}))
	must(t, err)
}

// in makes cmd run in a terminal, as from a shell.
func inTerminal(cmd *exec.Cmd, program *os.File) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

// fullScreen draws a screen by its size, again at each change, and ends at "q".
const fullScreen = `
import curses
def main(s):
    while True:
        rows, columns = s.getmaxyx()
        s.erase()
        s.addstr(rows - 1, 0, "size %d x %d." % (rows, columns))
        s.refresh()
        key = s.getch()
        if key == ord("q"):
            return
        if key == curses.KEY_RESIZE:
            curses.update_lines_cols()
curses.wrapper(main)
print("over")
`

// A full-screen program in a terminal, resized, and ended by a key.
func TestFullScreen(t *testing.T) {
	w := newWorld(t)
	person, program := terminal(t, 20, 60)
	cmd := w.command(w.binary, "exec", "--branch", "screen", "--", "python3", "-c", fullScreen)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	inTerminal(cmd, program)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	must(t, err)
	must(t, cmd.Start())
	out := &output{from: person}
	out.until(t, "size 20 x 60.")
	resize(t, person, 30, 90)
	// A signal that comes just before curses waits for a key is seen with the next
	// key.
	_, err = person.WriteString(" ")
	must(t, err)
	out.until(t, "30 x 90.")
	_, err = person.WriteString("q")
	must(t, err)
	out.until(t, "over")
	must(t, cmd.Wait())
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	must(t, err)
	if *before != *after {
		t.Errorf("the terminal's settings were %+v and are %+v", before, after)
	}
}

// Keys are the command's: ctrl-C, ctrl-Z and ctrl-D mean what they mean.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	person, program := terminal(t, 20, 60)
	cmd := w.command(w.binary, "exec", "--branch", "keys", "--", "sh", "-c",
		`test -t 0 && test -t 1 && test -t 2 && tty; trap 'echo interrupted' INT; echo ready; cat; echo read on; cat >/dev/null; exit 6`)
	inTerminal(cmd, program)
	must(t, cmd.Start())
	out := &output{from: person}
	out.until(t, "ready")
	for _, step := range []struct{ keys, answer string }{{"a line\r", "a line\r\na line\r\n"}, {"\x03", "read on"}, {"\x04", ""}} {
		_, err := person.WriteString(step.keys)
		must(t, err)
		out.until(t, step.answer)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 6 || !strings.Contains(string(out.text), "/dev/pts/0") || !strings.Contains(string(out.text), "interrupted") {
		t.Errorf("exit status %d, %q", code, out.text)
	}
	// Where stdout is no terminal, the command's is none either.
	cmd = w.command("sh", "-c", `"$0" exec --branch keys -- sh -c 'test -t 1 && echo yes; test -t 0 && echo terminal' | tr a-z A-Z`, w.binary)
	inTerminal(cmd, program)
	must(t, cmd.Start())
	out.until(t, "TERMINAL")
	must(t, cmd.Wait())
}

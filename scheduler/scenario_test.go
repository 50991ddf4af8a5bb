package scheduler

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the expected actions in testdata")

// TestScenarios runs the scripts of testdata: blocks of commands, a line of
// four dashes, and the actions that must come of them. Read one and you know
// the language; script.run has its words.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(in))
			if got == string(in) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: actions differ (rewrite with -update and read the diff); got:\n%s", file, got)
		})
	}
}

type script struct {
	s    *Scheduler
	cfg  Config
	now  time.Duration
	turn map[InstanceID]TurnID // of the last Switch or EndTurn
	out  strings.Builder
}

// runScript returns the script with the actions that really came.
func runScript(t *testing.T, text string) string {
	sc := &script{turn: map[InstanceID]TurnID{}}
	var out strings.Builder
	expected := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case line == "":
			expected = false
			out.WriteString("\n")
		case expected:
		case line == "----":
			expected = true
			out.WriteString("----\n" + sc.out.String())
			sc.out.Reset()
		default:
			out.WriteString(line + "\n")
			if strings.HasPrefix(line, "#") {
				continue
			}
			if err := sc.run(strings.Fields(line)); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
	return out.String()
}

func (sc *script) run(words []string) error {
	if words[0] == "config" {
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			f := reflect.ValueOf(&sc.cfg).Elem().FieldByName(name)
			if d, err := time.ParseDuration(value); err == nil && f.Type() == reflect.TypeFor[time.Duration]() {
				f.SetInt(int64(d))
			} else if n, err := strconv.Atoi(value); err == nil {
				f.SetInt(int64(n))
			} else {
				return err
			}
		}
		return nil
	}
	if sc.s == nil {
		sc.s = New(sc.cfg)
	}
	if d, ok := strings.CutPrefix(words[0], "+"); ok {
		d, err := time.ParseDuration(d)
		if err != nil {
			return err
		}
		sc.now += d
		if words = words[1:]; len(words) == 0 {
			words = []string{"tick"}
		}
	}
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	num := func(i int) int {
		n, _ := strconv.Atoi(word(i))
		return n
	}
	id := InstanceID(num(1))
	turn := sc.turn[id]
	if t, ok := strings.CutPrefix(word(2), "turn="); ok {
		n, _ := strconv.Atoi(t)
		turn = TurnID(n)
	}
	rest := strings.Join(words[min(2, len(words)):], " ")
	var e Event
	switch words[0] {
	case "submit": // submit REQUEST… BRANCH [background]
		last, class := len(words)-1, Interactive
		if words[last] == "background" {
			last, class = last-1, Background
		}
		for i := 1; i < last; i++ {
			sc.step(Submit{sc.now, RequestID(num(i)), words[last], class})
		}
		return sc.s.check()
	case "cancel":
		e = Cancel{sc.now, RequestID(num(1))}
	case "up":
		e = InstanceUp{sc.now, id}
	case "down": // down INSTANCE REASON
		e = InstanceDown{sc.now, id, rest, false}
	case "replaced": // replaced INSTANCE REASON
		e = InstanceDown{sc.now, id, rest, true}
	case "switched": // switched INSTANCE [turn=N]
		e = Switched{sc.now, id, turn}
	case "settled": // settled INSTANCE [turn=N]
		e = Settled{sc.now, id, turn}
	case "switchfailed": // switchfailed INSTANCE REASON
		e = SwitchFailed{sc.now, id, turn, rest}
	case "drained":
		e = Drained{sc.now, id, turn}
	case "finished": // finished INSTANCE REQUEST…
		for i := 2; i < len(words); i++ {
			sc.step(Finished{sc.now, id, RequestID(num(i))})
		}
		return sc.s.check()
	case "drop":
		e = DropBranch{sc.now, word(1)}
	case "prewarm":
		e = Prewarm{sc.now}
	case "resize":
		e = Resize{sc.now, num(1), num(2)}
	case "tick":
		e = Tick{sc.now}
	case "place":
		p, ok := sc.s.Position(RequestID(num(1)))
		fmt.Fprintf(&sc.out, "place of %d: %+v %v\n", num(1), p, ok)
		return nil
	case "status":
		st := sc.s.Snapshot()
		for _, in := range st.Instances {
			fmt.Fprintf(&sc.out, "instance %d: %s shows=%q holder=%q running=%v queued=%d\n", in.ID, in.State, in.Shows, in.Holder, in.Running, in.Queued)
		}
		for i, b := range st.Waiting {
			fmt.Fprintf(&sc.out, "waiting %d: %s queued=%d background=%v debt=%v\n", i, b.Branch, b.Queued, b.Background, b.Debt)
		}
		return nil
	default:
		return fmt.Errorf("unknown command")
	}
	sc.step(e)
	return sc.s.check()
}

func (sc *script) step(e Event) {
	for _, a := range sc.s.Step(e) {
		switch a := a.(type) {
		case Switch:
			sc.turn[a.Instance] = a.Turn
		case EndTurn:
			sc.turn[a.Instance] = a.Turn
		}
		fmt.Fprintf(&sc.out, "%v\t%s\n", sc.now, describe(a))
	}
}

func describe(a Action) string {
	switch a := a.(type) {
	case StartInstance:
		return fmt.Sprintf("start %d", a.Instance)
	case StopInstance:
		return fmt.Sprintf("stop %d", a.Instance)
	case Switch:
		return fmt.Sprintf("switch %d from %q to %q", a.Instance, a.From, a.To)
	case Run:
		return fmt.Sprintf("run %d on %d", a.Request, a.Instance)
	case CancelRunning:
		return fmt.Sprintf("cancel %d on %d: %v", a.Request, a.Instance, a.Why)
	case Fail:
		return fmt.Sprintf("fail %d: %v", a.Request, a.Err)
	case EndTurn:
		return fmt.Sprintf("end turn of %s on %d", a.Branch, a.Instance)
	case Release:
		return fmt.Sprintf("release %s", a.Branch)
	case WakeAt:
		return fmt.Sprintf("wake at %v", a.At)
	}
	return fmt.Sprintf("%#v", a)
}

package overlay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// madeUp is a model with one branch, changed at random, with checkpoints, moves
// there and back, and forks (whose own changes are dropped) in between.
func madeUp(t *testing.T, seed uint64, steps int, lesser bool) (m *model, name string) {
	root := t.TempDir()
	m = &model{
		t: t, lesser: lesser, r: rand.New(rand.NewPCG(seed, 9)), dir: filepath.Join(root, "plain"),
		opts:  Options{Base: filepath.Join(root, "base"), State: filepath.Join(root, "state")},
		plain: map[string]string{}, points: map[string]map[string]string{},
	}
	m.must(os.MkdirAll(m.dir, 0o755))
	m.makeBase()
	if m.r.IntN(2) == 0 {
		m.must(os.Mkdir(filepath.Join(m.opts.Base, ".git"), 0o755))
	}
	m.open()
	m.create("")
	name = m.pick()
	for range steps {
		b, err := m.store.Branch(name)
		m.must(err)
		switch k := m.r.IntN(100); {
		case k < 3:
			_, err := b.Checkpoint("")
			m.must(err)
		case k < 5: // the child goes on
			m.create(name)
			for n := range m.plain {
				if n != name {
					m.must(m.store.Drop(name))
					delete(m.plain, name)
					name = n
					break
				}
			}
		case k < 9:
			m.moveBack(name, b)
		default:
			m.change(name, b)
		}
	}
	return m, name
}

// differences are the lines that only one of two trees has.
func differing(got, want []string) (out []string) {
	for _, l := range got {
		if !slices.Contains(want, l) {
			out = append(out, "has "+l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			out = append(out, "lacks "+l)
		}
	}
	return out
}

// TestApply applies branches with everything in them: the base is then what the
// branch shows, to the bit, and the branch overrides nothing any more.
func TestApply(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m, name := madeUp(t, seed, 40+int(seed), seed%5 == 4)
			defer func() { m.store.Close() }()
			m.store.plainRename = seed%3 == 2
			b := must(m.store.Branch(name))(t)
			want := m.showPlain(m.plain[name])
			var steps []string
			quiet := map[string]bool{"settled": true, "cut off": true, "step taken": true, "held": true, "merged": true, "uncovered": true}
			m.store.stepped = func(name string) {
				if steps = append(steps, name); quiet[name] && !t.Failed() {
					shown := slices.DeleteFunc(m.show(b), func(l string) bool { return strings.Contains(l, "shadowlsp-apply-") })
					if d := differing(shown, want); len(d) > 0 {
						t.Errorf("after step %d, %s, the branch %q", len(steps), name, d)
					}
				}
			}
			list := must(b.Differences())(t)
			a, err := b.Apply(ApplyOptions{})
			if err != nil {
				for _, l := range m.log {
					t.Log(l)
				}
				t.Fatalf("%v\nsteps %q\nchanges %v", err, steps, list)
			}
			if d := differing(m.showPlain(m.opts.Base), want); len(d) > 0 {
				t.Errorf("the base %q\napplied %+v", d, a)
			}
			if d := differing(m.show(b), want); len(d) > 0 {
				t.Errorf("the branch %q", d)
			}
			if o := must(b.Overrides())(t); len(o) > 0 {
				t.Errorf("it still overrides %v", o)
			}
			m.store.check(t)
			m.nothingLeft(t)
			m.store.abandon()
			m.open()
			b = must(m.store.Branch(name))(t)
			if d := differing(m.show(b), want); len(d) > 0 {
				t.Errorf("opened again the branch %q", d)
			}
			if t.Failed() {
				for _, l := range m.log {
					t.Log(l)
				}
			}
		})
	}
}

// nothingLeft says what an apply has left behind.
func (m *model) nothingLeft(t *testing.T) {
	t.Helper()
	left := leftOver(t, m.opts.State)
	for _, pattern := range []string{".shadowlsp*", ".git/shadowlsp*", "*/.shadowlsp*", "*/*/.shadowlsp*"} {
		left = append(left, must(filepath.Glob(filepath.Join(m.opts.Base, pattern)))(t)...)
	}
	left = append(left, must(filepath.Glob(filepath.Join(m.opts.State, "applies", "*")))(t)...)
	if len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// TestApplyKilled kills an apply at each of its steps. The next Open makes the base
// what it was, or what it should be, and the branch shows the same all along.
func TestApplyKilled(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			steps := 0
			run := func(killAt int) (done bool) {
				m, name := madeUp(t, 1000+seed, 25, seed == 3)
				defer func() { m.store.Close() }()
				m.store.plainRename = seed%2 == 1
				before, want := m.showPlain(m.opts.Base), m.showPlain(m.plain[name])
				b := must(m.store.Branch(name))(t)
				steps = 0
				at := ""
				func() {
					defer func() {
						if r := recover(); r != nil && r != (killed{}) {
							panic(r)
						}
					}()
					m.store.stepped = func(name string) {
						if steps++; steps == killAt {
							at = name
							panic(killed{})
						}
					}
					_, err := b.Apply(ApplyOptions{})
					check(t, err)
					done = true
				}()
				m.store.abandon()
				s, _, err := Open(m.opts)
				check(t, err)
				m.store = s
				s.check(t)
				b = must(s.Branch(name))(t)
				base := m.showPlain(m.opts.Base)
				if d := differing(base, before); len(d) > 0 && len(differing(base, want)) > 0 {
					t.Errorf("killed at %d (%s): the base %q", killAt, at, d)
				}
				if d := differing(m.show(b), want); len(d) > 0 {
					t.Errorf("killed at %d (%s): the branch %q", killAt, at, d)
				}
				m.nothingLeft(t)
				if _, err := b.Apply(ApplyOptions{}); err != nil {
					t.Errorf("killed at %d (%s): once more: %v", killAt, at, err)
				}
				if d := differing(m.showPlain(m.opts.Base), want); len(d) > 0 {
					t.Errorf("killed at %d (%s), once more: the base %q", killAt, at, d)
				}
				return done
			}
			run(-1)
			t.Logf("%d steps", steps)
			for k := 1; !t.Failed() && !run(k); k++ {
			}
		})
	}
}

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shadowlsp/integration/stage"
)

// question is what one step asked, and what shadowlsp said.
type question struct {
	step    int
	branch  string
	did     edit
	state   state
	said    map[string]lints // by path
	whole   bool             // said is of the whole workspace
	refused []string
	torn    []string // documents of which two lints of one state differ
	began   time.Time
}

// again is how often the bare server is asked where the two differ.
const again = 3

// verdicts compares what shadowlsp said to what fresh servers say.
type verdicts struct {
	r *run

	mu    sync.Mutex // guards the fields below
	known map[[32]byte]map[string]lints
	lint  []time.Duration // of shadowlsp, the edited file
	bare  []time.Duration // of the dedicated server, the same file right after
	other int             // of its answers that differ from shadowlsp's
	fresh []time.Duration // of the reference, from its start until it was done

	proofs map[string]int // how often a lint stood on each

	steps, documents, diagnostics int
	differ, explained             int
	refused                       int
	failed                        int // references that could not be had
}

func newVerdicts(r *run) *verdicts {
	return &verdicts{r: r, known: map[[32]byte]map[string]lints{}, proofs: map[string]int{}}
}

func (v *verdicts) took(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lint = append(v.lint, d)
}

func (v *verdicts) proven(proof string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.proofs[proof]++
}

func (v *verdicts) tookBare(d time.Duration, equal bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bare = append(v.bare, d)
	if !equal {
		v.other++
	}
}

// key names the state of a question, documents that are open included.
func (q question) key() [32]byte {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(q.state.files)) {
		if text := q.state.files[path]; text != nil {
			fmt.Fprintf(h, "%q=%q\n", path, *text)
		} else {
			fmt.Fprintf(h, "%q deleted\n", path)
		}
	}
	fmt.Fprintf(h, "%q", slices.Sorted(maps.Keys(q.state.open)))
	return [32]byte(h.Sum(nil))
}

// reference is what a fresh server says of a question's state.
func (v *verdicts) reference(ctx context.Context, q question, worker, try int, order func([]string)) (map[string]lints, error) {
	top := filepath.Dir(v.r.stage.Dir)
	// As long as the workspace's own name, for what depends on that.
	dir := filepath.Join(top, fmt.Sprintf("copy%03d", worker))
	env := v.r.server.env(v.r.stage.Env, filepath.Join(top, fmt.Sprintf("cache-copy%d", worker)))
	found, took, err := fresh(ctx, v.r.server, v.r.source, dir, env, q.state, order)
	if err == nil && try == 0 {
		v.mu.Lock()
		v.fresh = append(v.fresh, took)
		v.mu.Unlock()
	}
	return found, err
}

// judge compares one question's answers.
func (v *verdicts) judge(ctx context.Context, q question, worker int) {
	if v.r.server.OpenAsked {
		for path := range q.said {
			if _, overridden := q.state.files[path]; !overridden {
				q.state.open[path] = true
			}
		}
	}
	key := q.key()
	v.mu.Lock()
	said := v.known[key]
	v.mu.Unlock()
	if said == nil {
		var err error
		if said, err = v.reference(ctx, q, worker, 0, func([]string) {}); err != nil {
			v.mu.Lock()
			defer v.mu.Unlock()
			if ctx.Err() == nil {
				v.failed++
				v.tell(q, "NO REFERENCE: %v", err)
			}
			return
		}
		v.mu.Lock()
		v.known[key] = said
		v.mu.Unlock()
	}
	differ := q.differences(said)
	explained := map[string]bool{}
	var others []map[string]lints
	for try := 1; try <= again && len(explained) < len(differ); try++ {
		other, err := v.reference(ctx, q, worker, try, q.order(try, differ))
		if err != nil {
			break
		}
		others = append(others, other)
		for _, path := range differ {
			if slices.Equal(q.said[path], other[path]) {
				explained[path] = true
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.steps++
	v.refused += len(q.refused)
	for _, why := range q.refused {
		v.tell(q, "refused: %s", why)
	}
	for _, path := range q.torn {
		v.differ++
		v.tell(q, "DIFFERENT from itself: %s was asked twice in one state", path)
	}
	for _, found := range q.said {
		v.documents++
		v.diagnostics += len(found)
	}
	for _, path := range differ {
		v.differ++
		missing, extra := q.said[path].compare(said[path])
		if explained[path] {
			v.explained++
			v.tell(q, "explained: %s: another run of the bare server says what shadowlsp said, and this one not:", path)
		} else {
			v.tell(q, "DIFFERENT: %s", path)
		}
		for _, one := range missing {
			fmt.Fprintf(v.r.out, "      only the fresh server: %s\n", one)
		}
		for _, one := range extra {
			fmt.Fprintf(v.r.out, "      only shadowlsp:        %s\n", one)
		}
		for n, other := range others {
			if explained[path] {
				break
			}
			if !slices.Equal(other[path], said[path]) {
				fmt.Fprintf(v.r.out, "      fresh server no. %d says something else again: %q\n", n+2, other[path])
			}
		}
	}
}

// order is how another run opens the documents: in the opposite order, then what
// differs first, then that in the opposite order too.
func (q question) order(try int, differ []string) func([]string) {
	return func(paths []string) {
		if try != 2 {
			slices.Reverse(paths)
		}
		if try != 1 {
			slices.SortStableFunc(paths, func(a, b string) int {
				x, y := slices.Contains(differ, a), slices.Contains(differ, b)
				switch {
				case x == y:
					return 0
				case x:
					return -1
				}
				return 1
			})
		}
	}
}

// differences lists the documents about which the two sides differ.
func (q question) differences(fresh map[string]lints) (paths []string) {
	all := maps.Clone(q.said)
	if q.whole {
		maps.Copy(all, fresh)
	}
	for path := range all {
		if !slices.Equal(q.said[path], fresh[path]) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// tell prints one line about a question.
func (v *verdicts) tell(q question, format string, args ...any) {
	fmt.Fprintf(v.r.out, "    step %d, %s, %s: %s:\n      %s\n", q.step, q.branch, q.did.path, q.did.what, fmt.Sprintf(format, args...))
}

// rungs are the proofs of the general ladder.
var rungs = map[string]bool{"pull": true, "pull+push": true, "progress": true, "versioned": true, "quiet": true}

// maxRefused is the part of lints that may be refused in a run that counts.
const maxRefused = 0.05

// err says what is wrong with a run, nil if nothing is.
func (v *verdicts) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.differ > v.explained:
		return fmt.Errorf("%d unexplained differences", v.differ-v.explained)
	case v.failed > 0:
		return fmt.Errorf("%d steps without a reference", v.failed)
	case float64(v.refused) > maxRefused*float64(v.documents+v.refused):
		return fmt.Errorf("%d lints were refused, %d answered", v.refused, v.documents)
	case v.r.server.Unknown && !v.onRungs():
		return fmt.Errorf("it was recognised: %v is no proof of the ladder's", v.proofs)
	case v.diagnostics == 0:
		return fmt.Errorf("no edit has caused any diagnostic: nothing was compared")
	}
	return nil
}

func (v *verdicts) onRungs() bool {
	for proof := range v.proofs {
		if !rungs[proof] {
			return false
		}
	}
	return true
}

// summary is the line of a run.
func (v *verdicts) summary() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	ms := func(d []time.Duration, q float64) string {
		return fmt.Sprintf("%.0f", float64(stage.Quantile(d, q).Microseconds())/1e3)
	}
	text := fmt.Sprintf("%d steps, %d lints compared with %d diagnostics, %d fresh servers; %d differences, %d explained; %d refused; ms per lint of the edited file: median %s, p99 %s",
		v.steps, v.documents, v.diagnostics, len(v.fresh), v.differ, v.explained, v.refused, ms(v.lint, 0.5), ms(v.lint, 0.99))
	if len(v.bare) > 0 {
		text += fmt.Sprintf("; a dedicated server: %s, %s, %d of %d as shadowlsp", ms(v.bare, 0.5), ms(v.bare, 0.99), len(v.bare)-v.other, len(v.bare))
	}
	var proofs []string
	for _, proof := range slices.Sorted(maps.Keys(v.proofs)) {
		proofs = append(proofs, fmt.Sprintf("%s %d", proof, v.proofs[proof]))
	}
	return text + fmt.Sprintf("; a fresh server: %s, %s; proofs: %s", ms(v.fresh, 0.5), ms(v.fresh, 0.99), strings.Join(proofs, ", "))
}

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
	step     int
	branch   string
	did      edit
	state    state
	said     map[string]lints // by path
	whole    bool             // said is of the whole workspace
	features []feature
	answers  map[string]lints // to those, by name
	refused  []string
	shown    []string         // documents that shadowlsp's server has seen in the run
	torn     map[string]lints // the first answers, where a second one in the same state was another
	began    time.Time
}

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
	questions, answered           int // beside lints
	differ                        int
	explained                     map[string]int // by how
	refused                       int
	failed                        int // references that could not be had
}

func newVerdicts(r *run) *verdicts {
	return &verdicts{r: r, known: map[[32]byte]map[string]lints{}, proofs: map[string]int{}, explained: map[string]int{}}
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
	for _, f := range q.features {
		fmt.Fprintf(h, "%q", f.name())
	}
	return [32]byte(h.Sum(nil))
}

// scene is that of a question, for one worker.
func (v *verdicts) scene(q question, worker int) scene {
	top := filepath.Dir(v.r.stage.Dir)
	caches := filepath.Join(top, fmt.Sprintf("cache-copy%d", worker))
	return scene{
		server: v.r.server, texts: v.r.texts, from: v.r.source, state: q.state, company: q.shown, edited: q.did.path, features: q.features,
		// As long as the workspace's own name, for what depends on that.
		dir:    filepath.Join(top, fmt.Sprintf("copy%03d", worker)),
		caches: caches, env: v.r.server.env(v.r.stage.Env, caches),
	}
}

// reference is what a fresh server says of a question's state.
func (v *verdicts) reference(ctx context.Context, q question, s scene) (map[string]lints, error) {
	key := q.key()
	v.mu.Lock()
	found := v.known[key]
	v.mu.Unlock()
	if found != nil {
		return found, nil
	}
	s.company = nil
	found, took, err := fresh(ctx, s)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.known[key] = found
		v.fresh = append(v.fresh, took)
	}
	return found, err
}

// explain tries the ways of bare servers until they account for what was said of
// the documents, and says how they do.
func (v *verdicts) explain(ctx context.Context, q question, s scene, first map[string]lints, differ []string) (how map[string]string, runs []map[string]lints) {
	how, s.differ = map[string]string{}, differ
	ways := slices.Concat(v.r.server.Ways, orders)
	for _, way := range ways {
		if len(how) == len(differ) {
			break
		}
		run, err := way.run(ctx, s)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			v.mu.Lock()
			v.tell(q, "no answer of a bare server, %s: %v", way.Name, err)
			v.mu.Unlock()
			run = first
		}
		runs = append(runs, run)
		for _, path := range differ {
			if how[path] != "" {
				continue
			}
			var found []lints
			for _, run := range runs {
				found = append(found, run[path])
			}
			if which, ok := accounts(q.said[path], first[path], found); ok && which >= 0 {
				how[path] = ways[which].Name
			} else if ok && len(runs) == len(ways) {
				how[path] = "in parts"
			}
		}
	}
	return how, runs
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
	s := v.scene(q, worker)
	maps.Copy(q.said, q.answers)
	said, err := v.reference(ctx, q, s)
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		if ctx.Err() == nil {
			v.failed++
			v.tell(q, "NO REFERENCE: %v", err)
		}
		return
	}
	differ := q.differences(said)
	how, runs := v.explain(ctx, q, s, said, differ)
	first := q.first()
	firstDiffer := first.differences(said)
	firstHow, _ := v.explain(ctx, first, s, said, firstDiffer)
	if ctx.Err() != nil {
		return // what was cut short explains nothing
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.count(q)
	for _, path := range slices.Sorted(maps.Keys(q.torn)) {
		v.differ++
		if accounted(path, differ, how) && accounted(path, firstDiffer, firstHow) {
			v.explained["both answers"]++
			v.tell(q, "explained: %s was asked twice in one state: bare servers say both", path)
		} else {
			v.tell(q, "DIFFERENT from itself: %s was asked twice in one state", path)
		}
	}
	for _, path := range differ {
		v.differ++
		if how[path] == "" {
			v.tell(q, "DIFFERENT: %s; %s", path, q.state)
		} else {
			v.explained[how[path]]++
			v.tell(q, "explained: %s: another run of the bare server (%s) says what shadowlsp said, and this one not:", path, how[path])
		}
		missing, extra := q.said[path].compare(said[path])
		for _, one := range missing {
			fmt.Fprintf(v.r.out, "      only the fresh server: %s\n", one)
		}
		for _, one := range extra {
			fmt.Fprintf(v.r.out, "      only shadowlsp:        %s\n", one)
		}
		for n, other := range runs {
			if how[path] == "" && !slices.Equal(other[path], said[path]) {
				fmt.Fprintf(v.r.out, "      fresh server no. %d says something else again: %q\n", n+2, other[path])
			}
		}
	}
}

// count takes in what a question's answers were.
func (v *verdicts) count(q question) {
	v.steps++
	v.refused += len(q.refused)
	for _, why := range q.refused {
		v.tell(q, "refused: %s", why)
	}
	for name, found := range q.said {
		if _, feature := q.answers[name]; !feature {
			v.documents++
			v.diagnostics += len(found)
		}
	}
	v.questions += len(q.answers)
	for _, found := range q.answers {
		if len(found) > 0 && found[0] != noSuchRequest {
			v.answered++
		}
	}
}

// first is the question with its first answers where the second ones are others.
func (q question) first() question {
	q.said, q.whole = q.torn, false
	return q
}

// accounted says whether a document's answer is that of a bare server.
func accounted(path string, differ []string, how map[string]string) bool {
	return !slices.Contains(differ, path) || how[path] != ""
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
	case v.unexplained() > 0:
		return fmt.Errorf("%d unexplained differences", v.unexplained())
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

// unexplained counts differences.
func (v *verdicts) unexplained() int {
	n := v.differ
	for _, explained := range v.explained {
		n -= explained
	}
	return n
}

// counted spells a table of counts.
func counted(n map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%s %d", name, n[name]))
	}
	return strings.Join(all, ", ")
}

// summary is the line of a run.
func (v *verdicts) summary() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	ms := func(d []time.Duration, q float64) string {
		return fmt.Sprintf("%.0f", float64(stage.Quantile(d, q).Microseconds())/1e3)
	}
	explained := ""
	if len(v.explained) > 0 {
		explained = " (explained: " + counted(v.explained) + ")"
	}
	text := fmt.Sprintf("%d steps, %d lints compared with %d diagnostics, %d other answers (%d say something), %d fresh servers; %d differences, %d of them unexplained%s; %d refused; ms per lint of the edited file: median %s, p99 %s",
		v.steps, v.documents, v.diagnostics, v.questions, v.answered, len(v.fresh), v.differ, v.unexplained(), explained, v.refused, ms(v.lint, 0.5), ms(v.lint, 0.99))
	if len(v.bare) > 0 {
		text += fmt.Sprintf("; a dedicated server: %s, %s, %d of %d as shadowlsp", ms(v.bare, 0.5), ms(v.bare, 0.99), len(v.bare)-v.other, len(v.bare))
	}
	return text + fmt.Sprintf("; a fresh server: %s, %s; proofs: %s", ms(v.fresh, 0.5), ms(v.fresh, 0.99), counted(v.proofs))
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shadowlsp/integration/stage"
	"shadowlsp/lsp/wire"
)

// leakVariable set to "full" has the hunt be as long as it is meant to be.
const leakVariable = "SHADOWLSP_LEAKS"

// leakName is the name of a type that one edit of one branch makes.
var leakName = regexp.MustCompile(`Leak(\d+)x(\d+)y`)

// hunt is many agents at once, whose every edit makes an error with a name of its
// own; nobody may ever read another's.
type hunt struct {
	w         *world
	each      int // lints of each agent
	asked     atomic.Int64
	answered  atomic.Int64
	cancelled atomic.Int64
	left      atomic.Int64
	refused   atomic.Int64
}

func TestNoNameLeaks(t *testing.T) {
	branches, each, kills := 10, 12, 1
	if os.Getenv(leakVariable) == "full" {
		branches, each, kills = 50, 40, 4 // five in a minute, and the pool rightly gives up
	}
	h := &hunt{w: shared(t), each: each}
	total := int64(branches * each)
	errs := make([]error, branches)
	var agents, killer sync.WaitGroup
	over := make(chan struct{})
	killer.Go(func() {
		for k := range kills {
			// After each further part of the work, whatever is being done.
			at := total * int64(k+1) / int64(kills+1)
			for h.asked.Load() < at {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
			if s, ok := h.w.status(t); ok && len(s.Servers) > 0 && len(s.Servers[0].Instances) > 0 {
				_ = syscall.Kill(s.Servers[0].Instances[0].PID, syscall.SIGKILL)
			}
		}
	})
	began := time.Now()
	for b := range branches {
		agents.Go(func() { errs[b] = h.agent(t, b) })
	}
	agents.Wait()
	close(over)
	killer.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	t.Logf("%d questions in %.1f s: %d answered, %d cancelled, %d left unanswered, %d refused; %d instances killed",
		h.asked.Load(), time.Since(began).Seconds(), h.answered.Load(), h.cancelled.Load(), h.left.Load(), h.refused.Load(), kills)
	if h.answered.Load() < total/2 {
		t.Error("most was not answered: that proves nothing")
	}
}

// agent is one agent's life: it edits, asks, changes its mind, leaves in the middle
// and comes back.
func (h *hunt) agent(t *testing.T, branch int) error {
	dice := rand.New(rand.NewPCG(uint64(branch), 5))
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	connect := func() (*agent, error) {
		a := h.w.speak(t, h.w.dial(t))
		return a, a.initialize(ctx, attach{branch: fmt.Sprintf("leak%d", branch)})
	}
	a, err := connect()
	if err != nil {
		return err
	}
	version := 0
	for n := 0; n < h.each; n++ {
		if dice.IntN(3) > 0 || version == 0 {
			version++
			name := fmt.Sprintf("Leak%dx%dy", branch, version)
			if _, err := a.call(ctx, "shadowlsp/write", map[string]any{"edits": []fileEdit{h.w.text("lib/lib.go", stage.LibText(name))}}); err != nil {
				return err
			}
		}
		method, params := h.question(dice)
		h.asked.Add(1)
		q, err := a.ask(method, params)
		if err != nil {
			return err
		}
		switch dice.IntN(12) {
		case 0, 1:
			if err := q.cancel(); err != nil {
				return err
			}
			h.cancelled.Add(1)
		case 2:
			h.left.Add(1)
			a.conn.Close()
			if a, err = connect(); err != nil {
				return err
			}
			continue
		}
		answer, err := q.answer(ctx)
		var e *wire.Error
		if errors.As(err, &e) {
			h.refused.Add(1)
			answer = []byte(e.Message)
		} else if err != nil {
			return err
		} else {
			h.answered.Add(1)
		}
		if err := h.judge(branch, version, method, params, string(answer), e == nil); err != nil {
			return err
		}
	}
	return nil
}

func (h *hunt) question(dice *rand.Rand) (string, any) {
	use := h.w.uri("use/use.go")
	switch dice.IntN(7) {
	case 0:
		return "textDocument/hover", at(use, 6, 12)
	case 1:
		return "workspace/symbol", map[string]any{"query": "Leak"}
	case 2:
		return "workspace/diagnostic", map[string]any{"previousResultIds": []any{}}
	case 3:
		return "textDocument/documentSymbol", document(h.w.uri("lib/lib.go"))
	case 4:
		return "shadowlsp/lint", map[string]any{}
	}
	return "textDocument/diagnostic", document(use)
}

// judge looks for names that are not those of the branch's present text, and for
// the lack of that.
func (h *hunt) judge(branch, version int, method string, params any, answer string, full bool) error {
	own := false
	for _, found := range leakName.FindAllStringSubmatch(answer, -1) {
		b, _ := strconv.Atoi(found[1])
		v, _ := strconv.Atoi(found[2])
		if b != branch || v != version {
			return fmt.Errorf("branch %d at edit %d was answered %s of another: %s %v: %s", branch, version, found[0], method, params, answer)
		}
		own = true
	}
	if full && !own && !strings.Contains(method, "hover") {
		return fmt.Errorf("branch %d at edit %d: its own name is not in the answer: %s %v: %s", branch, version, method, params, answer)
	}
	return nil
}

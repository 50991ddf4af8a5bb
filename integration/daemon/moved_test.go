package daemon

import (
	"fmt"
	"os"
	"testing"

	"shadowlsp/integration/stage"
)

func TestTmpGoMod(t *testing.T) {
	w := newWorld(t, module)
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	for range 5 {
		a.edit(t, w.text("go.mod", module["go.mod"]+"nonsense\n"))
		a.names(t, "go.mod", "nonsense")
		a.edit(t, w.text("go.mod", module["go.mod"]))
		a.clean(t, "use/use.go")
		a.clean(t, "go.mod")
	}
}

func TestTmpDir(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	a.clean(t, "use/use.go")
	for round := range 10 {
		must(t, os.Rename(w.path("lib"), w.path("lab")))
		a.names(t, "use/use.go", "lib")
		must(t, os.Rename(w.path("lab"), w.path("lib")))
		w.write(t, "lib/lib.go", stage.LibText(fmt.Sprintf("Moved%d", round)))
		a.names(t, "use/use.go", fmt.Sprintf("Moved%d", round))
	}
	must(t, os.Rename(w.path("lib"), w.top+"/away"))
	a.names(t, "use/use.go", "lib")
	must(t, os.Rename(w.top+"/away", w.path("lib")))
	a.names(t, "use/use.go", "Moved9")
	w.restore(t)
}

// A folder that is broken without anybody's document: it stays an honest error.
func TestTmpBroken(t *testing.T) {
	w := newWorld(t, module)
	w.before = nil
	w.serve(t)
	a := w.agent(t, attach{branch: "b"})
	a.clean(t, "use/use.go")
	for range 4 {
		w.write(t, "go.mod", module["go.mod"]+"nonsense\n")
		r, err := a.tryLint(t.Context(), "use/use.go")
		m, err2 := a.tryLint(t.Context(), "go.mod")
		t.Log(errorsIn(r.Items), err, errorsIn(m.Items), err2)
		if err == nil && err2 == nil && len(errorsIn(r.Items))+len(errorsIn(m.Items)) == 0 {
			t.Error("clean")
		}
		w.restore(t)
		a.clean(t, "use/use.go")
	}
}

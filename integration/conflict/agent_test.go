package conflict

import (
	"encoding/json"
	"strings"
	"testing"

	"shadowlsp/integration/need"
	"shadowlsp/integration/stage"
)

func TestJudgeTellsRightFromWrong(t *testing.T) {
	report := func(verdict string, messages ...string) Lint {
		items := []map[string]any{}
		for _, m := range messages {
			items = append(items, map[string]any{"severity": 1, "message": m, "data": "x"})
		}
		raw, err := json.Marshal(map[string]any{"items": items, "shadowlsp": map[string]string{"verdict": verdict}})
		if err != nil {
			t.Fatal(err)
		}
		found, err := (&Agent{dir: "/w"}).read(raw)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for name, c := range map[string]struct {
		lint  Lint
		wrong string // a part of what Judge says, "" for right
	}{
		"right, last parameter":  {report("fresh", "not enough\n\twant (string, m.Mine1)"), ""},
		"right, first parameter": {report("fresh", "not enough\n\twant (m.Mine1, string)"), ""},
		"an earlier round":       {report("fresh", "want (string, m.Mine0)"), "another edit"},
		"a later round":          {report("fresh", "want (string, m.Mine10)"), "another edit"},
		"falsely clean":          {report("fresh"), "0 errors"},
		"too many":               {report("fresh", "want (Mine1)", "want (Mine1)"), "2 errors"},
		"of the other agent":     {report("fresh", "want (Theirs1)"), "Theirs"},
		"without a verdict":      {report("", "want (Mine1)"), "verdict"},
	} {
		err := c.lint.Judge(1, "Mine1", "Theirs")
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
}

func TestTargetsAreInTheirModules(t *testing.T) {
	for source, target := range map[string]Target{"xmod": Compare, "xtools": CoreType} {
		count, err := target.Count(need.Source(t, source))
		if err != nil {
			t.Errorf("%s: %v", source, err)
		}
		t.Logf("%s: %v", source, count)
	}
	if _, err := Compare.Count(t.TempDir()); err == nil {
		t.Error("an empty folder has the target")
	}
	dir := t.TempDir()
	if err := stage.Plant(dir, map[string]string{Compare.Edited: "package p\n", Compare.Dependent: "package p\n"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Compare.Count(dir); err == nil {
		t.Error("files without the function have the target")
	}
}

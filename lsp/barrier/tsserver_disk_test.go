package barrier

import (
	"fmt"
	"reflect"
	"testing"

	"shadowlsp/lsp/wire"
)

func TestTSDiskRepairs(t *testing.T) {
	const created, changed, deleted, closed = 1, 2, 3, 4
	type news struct {
		file string
		kind int
	}
	file := func(names ...string) (r tsRepair) { r.files = names; return r }
	projects, restart := tsRepair{projects: true}, tsRepair{projects: true, restart: true}
	for name, tc := range map[string]struct {
		news           []news
		watched, blind tsRepair
	}{
		"nothing":                          {nil, tsRepair{}, tsRepair{}},
		"a file":                           {[]news{{"/w/a.ts", changed}}, tsRepair{}, file("/w/a.ts")},
		"an open one":                      {[]news{{"/w/open.ts", changed}}, tsRepair{}, tsRepair{}},
		"one that was closed behind it":    {[]news{{"/w/a.ts", changed}, {"/w/a.ts", closed}}, file("/w/a.ts"), file("/w/a.ts")},
		"one that was closed before it":    {[]news{{"/w/a.ts", closed}, {"/w/a.ts", changed}}, tsRepair{}, file("/w/a.ts")},
		"opened again":                     {[]news{{"/w/open.ts", changed}, {"/w/open.ts", closed}}, tsRepair{}, tsRepair{}},
		"a new file":                       {[]news{{"/w/a.ts", created}}, tsRepair{}, projects},
		"a new file that is open":          {[]news{{"/w/open.ts", created}}, tsRepair{}, projects},
		"one that went":                    {[]news{{"/w/a.ts", deleted}}, tsRepair{}, projects},
		"a directory":                      {[]news{{"/w/d", deleted}}, projects, restart},
		"package.json":                     {[]news{{"/w/package.json", changed}}, projects, projects},
		"in a package":                     {[]news{{"/w/node_modules/d/index.d.ts", changed}}, projects, projects},
		"tsconfig.json":                    {[]news{{"/w/tsconfig.json", changed}}, projects, projects},
		"a new tsconfig.json":              {[]news{{"/w/tsconfig.app.json", created}}, projects, restart},
		"what a tsconfig.json may extend":  {[]news{{"/w/base.json", changed}}, projects, restart},
		"a file, and a package.json":       {[]news{{"/w/a.ts", changed}, {"/w/package.json", created}}, projects, projects},
		"changed, and then gone":           {[]news{{"/w/a.ts", changed}, {"/w/a.ts", deleted}}, tsRepair{}, projects},
		"node_modules as a whole is there": {[]news{{"/w/node_modules", created}}, projects, projects},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTSDisk()
			for _, n := range tc.news {
				m := wire.Message{Method: "workspace/didChangeWatchedFiles", Params: fmt.Appendf(nil, `{"changes":[{"uri":"file://%s","type":%d}]}`, n.file, n.kind)}
				if n.kind == closed {
					m = wire.Message{Method: "textDocument/didClose", Params: fmt.Appendf(nil, `{"textDocument":{"uri":"file://%s"}}`, n.file)}
				}
				d.observe(m)
			}
			open := map[string]bool{"/w/open.ts": true}
			for watched, want := range map[bool]tsRepair{true: tc.watched, false: tc.blind} {
				got := d.repair(watched, open)
				want.serial = got.serial
				if !reflect.DeepEqual(got, want) {
					t.Errorf("watched %v: %+v, want %+v", watched, got, want)
				}
			}
			r := d.repair(true, open)
			d.happened("/w/late.ts", changed)
			d.settled(r, open)
			if got := d.repair(false, open); len(got.files) == 0 && !got.projects {
				t.Error("news that came during a repair was forgotten")
			}
			d.settled(d.repair(true, open), open)
			if got := d.repair(false, nil); got.projects || len(got.files) > 1 {
				t.Errorf("settled, but: %+v", got)
			}
		})
	}
}

package mode

import (
	"strings"
	"testing"

	"shadowlsp/internal/sandbox"
)

func TestDecide(t *testing.T) {
	good := func() sandbox.Abilities {
		ok := func(name string) sandbox.Ability { return sandbox.Ability{Name: name, OK: true, Detail: "works"} }
		return sandbox.Abilities{
			Device: ok("device"), UserNS: ok("user"), PIDNS: ok("pid"), FreshProc: ok("proc"), Mount: ok("mount"), Landlock: ok("landlock"),
			Fusermount: sandbox.Ability{Name: "fusermount", Detail: "absent", Lost: "much", Remedy: "repair fusermount"},
		}
	}
	bad := func(a *sandbox.Ability) {
		a.OK, a.Detail, a.Lost, a.Remedy = false, "broken", "much", "repair "+a.Name
	}
	for name, c := range map[string]struct {
		want    Mode
		without func(*sandbox.Abilities)
		mode    Mode
		guard   sandbox.Guard
		bare    bool
		remedy  string
	}{
		"all":              {Auto, func(*sandbox.Abilities) {}, Full, sandbox.GuardView, false, ""},
		"full":             {Full, func(*sandbox.Abilities) {}, Full, sandbox.GuardView, false, ""},
		"documents":        {Documents, func(*sandbox.Abilities) {}, Documents, sandbox.GuardMount, false, "--mode"},
		"no proc":          {Auto, func(a *sandbox.Abilities) { bad(&a.FreshProc) }, Full, sandbox.GuardView, false, ""},
		"no pid namespace": {Auto, func(a *sandbox.Abilities) { bad(&a.PIDNS) }, Full, sandbox.GuardView, false, ""},
		"elsewhere":        {Elsewhere, func(a *sandbox.Abilities) { a.Fusermount.OK = true }, Elsewhere, sandbox.GuardMount, false, "--mode"},
		"no fusermount":    {Elsewhere, func(*sandbox.Abilities) {}, "", "", false, "repair fusermount"},
		"fusermount alone": {Auto, func(a *sandbox.Abilities) { bad(&a.UserNS); bad(&a.Mount); a.Fusermount.OK = true },
			Elsewhere, sandbox.GuardLandlock, true, "repair user"},
		"no device":                {Auto, func(a *sandbox.Abilities) { bad(&a.Device); bad(&a.Mount) }, Documents, sandbox.GuardMount, false, "repair device"},
		"no device, but full":      {Full, func(a *sandbox.Abilities) { bad(&a.Device) }, "", "", false, "repair device"},
		"no namespaces":            {Auto, func(a *sandbox.Abilities) { bad(&a.UserNS); bad(&a.Mount) }, Documents, sandbox.GuardLandlock, true, "repair user"},
		"no namespaces, documents": {Documents, func(a *sandbox.Abilities) { bad(&a.UserNS) }, Documents, sandbox.GuardLandlock, true, "repair user"},
		"nothing": {Auto, func(a *sandbox.Abilities) {
			for _, x := range []*sandbox.Ability{&a.Device, &a.UserNS, &a.PIDNS, &a.Mount, &a.Landlock} {
				bad(x)
			}
		}, Documents, sandbox.GuardNone, true, "repair device"},
	} {
		t.Run(name, func(t *testing.T) {
			a := good()
			c.without(&a)
			d, err := Decide(c.want, a)
			if c.mode == "" {
				if err == nil || !strings.Contains(err.Error(), c.remedy) {
					t.Errorf("%+v, %v", d, err)
				}
				return
			}
			if err != nil || d.Mode != c.mode || d.Guard != c.guard || d.NoNamespaces != c.bare || !strings.Contains(d.Remedy, c.remedy) {
				t.Errorf("%+v, %v", d, err)
			}
			if said := d.Why != "" && d.Lost != "" && d.Remedy != ""; said == (d.Mode == Full) {
				t.Errorf("too much or too little is said: %+v", d)
			}
			if d.NoNamespaces && (d.UserNS || !d.NoPIDNamespace) {
				t.Errorf("contradicts itself: %+v", d)
			}
			if d.Guard == sandbox.GuardNone && !strings.Contains(d.Lost, "keeps a server from writing") {
				t.Errorf("that the folder can be written is not said: %s", d.Lost)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Mode{"": Auto, "auto": Auto, "full": Full, "documents": Documents, "elsewhere": Elsewhere, "x": ""} {
		if got, err := Parse(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

package fusefs

import "testing"

// What was looked up may be known, there or not, and what came into or went from a
// directory that was listed; nothing else is.
func TestAsked(t *testing.T) {
	s := newStage(t, map[string]string{"a": "", "dir/b": "", "dir/c": "", "listed/d": ""})
	s.eye.do("read", "dir/b")
	if _, err := s.eye.try("stat", "dir/none"); err == nil {
		t.Error("it is there")
	}
	s.eye.do("list", "listed")
	for _, tc := range []struct {
		path  string
		comes bool
		want  bool
	}{
		{"dir/b", false, true}, {"dir/none", true, true}, {"dir", false, true},
		{"a", true, false}, {"dir/c", false, false}, {"dir/new", true, false},
		{"listed/new", true, true}, {"listed/d", false, false},
	} {
		if got := s.view.Asked(tc.path, tc.comes); got != tc.want {
			t.Errorf("%s, %v: %v", tc.path, tc.comes, got)
		}
	}
	if !(&View{}).Asked("a", false) {
		t.Error("nobody has remembered, so it is not known")
	}
}

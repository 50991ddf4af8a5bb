package docuri

import "testing"

func TestOneFileOneSpelling(t *testing.T) {
	for _, s := range []string{"file:///a%40b/c%3ad.go", "file:///a@b/c:d.go", "file:///a%40b/c%3Ad.go", "file:///x/../a@b//c:d.go"} {
		p, ok := Path(s)
		if !ok || p != "/a@b/c:d.go" {
			t.Errorf("%s: path %q %v", s, p, ok)
		}
	}
	for _, p := range []string{"/", "/a b/ü/#x?y%41.go", "/a@b/c:d.go", "/日本"} {
		u := FromPath(p)
		if Canonical(u) != u {
			t.Errorf("%s is not canonical: %s", u, Canonical(u))
		}
		if back, ok := Path(u); !ok || back != p {
			t.Errorf("%s: %q %v", u, back, ok)
		}
	}
	for _, s := range []string{"", "untitled:Untitled-1", "file://host/x", "http://a/b", "file:relative", "file:///a%00b"} {
		if p, ok := Path(s); ok {
			t.Errorf("%s: taken for the path %q", s, p)
		}
	}
}

package overlay

import "testing"

// Branches that write one path by turns are given different seconds, also from the
// base's; one that writes alone does not run ahead.
func TestSecondsOfBranchesAreApart(t *testing.T) {
	b := newBranch(t)
	other := must(b.store.Create("other", CreateOptions{}))(t)
	const turns = 10
	at := map[int64]string{}
	now := b.store.now().Sec
	for n := range turns {
		for _, w := range []*Branch{b, other} {
			if err := w.WriteFile("new.txt", []byte{byte(n)}, 0); err != nil {
				t.Fatal(err)
			}
			sec := lookup(t, w, "new.txt").Attr.Mtime.Sec
			if whose := at[sec]; whose != "" && whose != w.name {
				t.Fatalf("turn %d: second %d of %s is %s's too", n, sec-now, w.name, whose)
			}
			at[sec] = w.name
			if err := w.WriteFile("alone"+w.name, []byte{byte(n)}, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ahead := lookup(t, b, "alone"+b.name).Attr.Mtime.Sec - b.store.now().Sec; ahead > 0 {
		t.Errorf("%d seconds ahead of the clock", ahead)
	}
}

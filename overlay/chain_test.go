package overlay

import (
	"fmt"
	"testing"
)

// What a long line of forks costs a look-up: of a file that only the base has,
// which every layer is asked about.
func BenchmarkChain(bm *testing.B) {
	for _, length := range []int{1, 10, 100} {
		bm.Run(fmt.Sprint("layers=", length), func(bm *testing.B) {
			b := newBranch(bm)
			for i := range length {
				check(bm, b.WriteFile(fmt.Sprint("dir/of_", i), []byte("x"), 0))
				b = must(b.Fork(fmt.Sprint("fork", i), false))(bm)
			}
			for bm.Loop() {
				lookup(bm, b, "dir/file")
			}
		})
	}
}

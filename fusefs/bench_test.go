package fusefs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// stats PATTERN N: looks at N files, so that the kernel has them all.
	eyeDoes["stats"] = func(root string, args []string) (string, error) {
		var st unix.Stat_t
		for i := range atoi(args[1]) {
			if err := unix.Lstat(root+"/"+fmt.Sprintf(args[0], i%100, i), &st); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

// What a switch costs, by the names that differ and that the kernel has, in a
// tree of some size that it also has.
func BenchmarkSwitch(b *testing.B) {
	for _, size := range []int{1000, 20000} {
		files := map[string]string{}
		for i := range size {
			files[fmt.Sprintf("d%d/f%d", i%100, i)] = "x"
		}
		s := newStage(b, files)
		for _, n := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("overrides=%d/files=%d", n, size), func(b *testing.B) {
				one := s.create(fmt.Sprint("one", n, b.N))
				two := s.create(fmt.Sprint("two", n, b.N))
				for i := range n {
					s.agent(one, fmt.Sprintf("d%d/f%d", i%100, i), "one")
					s.agent(two, fmt.Sprintf("d%d/f%d", i%100, i), "two")
				}
				s.switchTo(one)
				s.eye.do("stats", "d%d/f%d", fmt.Sprint(size))
				b.ResetTimer()
				for i := range b.N {
					b.StopTimer()
					s.eye.do("stats", "d%d/f%d", fmt.Sprint(n))
					b.StartTimer()
					if i%2 == 0 {
						s.switchTo(two)
					} else {
						s.switchTo(one)
					}
				}
				b.StopTimer()
				s.switchTo(s.branch)
				must(b, s.store.Drop(one.Name()))
				must(b, s.store.Drop(two.Name()))
			})
		}
	}
}

// What it costs that an agent's edit is shown.
func BenchmarkAgentsEdit(b *testing.B) {
	s := newStage(b, someFiles)
	for i := range b.N {
		s.agent(s.branch, "a.txt", fmt.Sprint(i))
		s.settle()
	}
}

func BenchmarkSync(b *testing.B) {
	s := newStage(b, someFiles)
	for range b.N {
		s.sync()
	}
}

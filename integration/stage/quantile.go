package stage

import (
	"slices"
	"time"
)

// Quantile returns the q-th quantile of durations (0.5 the median, 1 the
// largest) by the nearest-rank method; 0 of none.
func Quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	rank := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

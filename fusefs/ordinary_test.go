package fusefs

import (
	"testing"

	"shadowlsp/integration/need"
)

// TestOrdinary runs the whole suite again as an ordinary user, in user
// namespaces.
func TestOrdinary(t *testing.T) {
	if testing.Short() {
		t.Skip("short: as root only")
	}
	need.Ordinary{UID: 48322, Env: []string{"GOFLAGS=-mod=mod"}}.Run(t)
}

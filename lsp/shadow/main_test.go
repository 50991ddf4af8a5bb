package shadow_test

import (
	"testing"

	"go.uber.org/goleak"

	"shadowlsp/lsp/lsptest"
)

func TestMain(m *testing.M) {
	lsptest.Main()
	goleak.VerifyTestMain(m)
}

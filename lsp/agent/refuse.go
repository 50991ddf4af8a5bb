package agent

import (
	"context"
	"net"

	"shadowlsp/lsp/wire"
)

// OverLimit is the error for what would cross a limit: name is what users set it
// by, and what says what to do. data.shadowlsp has both for programs.
func OverLimit(name string, max int64, format string, args ...any) *wire.Error {
	type mark struct {
		Limit string `json:"limit"`
		Max   int64  `json:"max"`
	}
	return wire.Errorf(wire.CodeRequestFailed, format, args...).
		WithData(map[string]mark{"shadowlsp": {name, max}})
}

// refuse answers a connection's initialize with why there is no place for it,
// and closes it.
func refuse(ctx context.Context, conn net.Conn, cfg Config, why *wire.Error) {
	_ = Serve(ctx, conn, cfg, full{why}) // it has logged why the connection ended
}

// full is a Backend that has no place.
type full struct{ why *wire.Error }

// Attach implements Backend.
func (f full) Attach(context.Context, Attach) (Attached, error) { return Attached{}, f.why }

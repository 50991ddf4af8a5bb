package agent

import (
	"fmt"
	"io"

	"shadowlsp/lsp/wire"
)

// preamble begins every LSP stream: both header fields that LSP knows begin so,
// and no HTTP request does. lsp/wire alone is lenient about unknown fields,
// under which "POST /a:b HTTP/1.1" would pass as one.
const preamble = "content-"

// gate refuses what is not LSP at its first wrong byte, and holds a peer to a
// few bytes until it is open. It is for one goroutine.
type gate struct {
	in    io.Reader
	limit int // while not open
	open  bool
	seen  int // bytes that came, until open
}

func (g *gate) Read(p []byte) (int, error) {
	n, err := g.in.Read(p)
	if g.open {
		return n, err
	}
	for i := g.seen; i < len(preamble) && i-g.seen < n; i++ {
		if c := p[i-g.seen]; c != preamble[i] && (c < 'A' || c > 'Z' || c|0x20 != preamble[i]) {
			return 0, fmt.Errorf("%w: the first bytes are %q", wire.ErrNotLSP, p[:min(n, 16)])
		}
	}
	g.seen += n
	if g.seen > g.limit {
		return 0, fmt.Errorf("%w: %d bytes came before an accepted initialize, %d allowed", wire.ErrTooLarge, g.seen, g.limit)
	}
	return n, err
}

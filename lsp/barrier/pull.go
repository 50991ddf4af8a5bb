package barrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"shadowlsp/lsp/wire"
)

// retryFirst and retryMost bound the pause before a pull is repeated that the
// server has cancelled.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

// pull asks for one document's diagnostics until the server has an answer, and
// returns its items.
func pull(ctx context.Context, h Host, uri string, identifier json.RawMessage) (json.RawMessage, error) {
	params := map[string]any{"textDocument": map[string]any{"uri": uri}}
	if identifier != nil {
		params["identifier"] = identifier
	}
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		answer, err := h.Call(ctx, "textDocument/diagnostic", params)
		if err == nil {
			items, ok := Lookup(answer, "items")
			if !ok || len(items) == 0 || items[0] != '[' {
				return nil, fmt.Errorf("a diagnostic report without items: %.100s", answer)
			}
			return items, nil
		}
		if !again(err) {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// again says that the server asks to be asked again.
func again(err error) bool {
	e := (*wire.Error)(nil)
	return errors.As(err, &e) && (e.Code == wire.CodeServerCancelled || e.Code == wire.CodeContentModified)
}

// joined are two arrays of diagnostics as one.
func joined(a, b json.RawMessage) (json.RawMessage, error) {
	var all, more []json.RawMessage
	if err := errors.Join(json.Unmarshal(a, &all), json.Unmarshal(b, &more)); err != nil {
		return nil, err
	}
	if len(more) == 0 {
		return a, nil
	}
	return Raw(append(all, more...)), nil
}

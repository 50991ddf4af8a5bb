package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"shadowlsp/lsp/agent"
	"shadowlsp/lsp/text"
	"shadowlsp/lsp/wire"
	"shadowlsp/overlay"
)

// changeset collects changes of files of one branch, each seeing those before
// it, and makes them all or none.
type changeset struct {
	s     *session
	texts map[string]*string // by path below the root; nil: deleted
	order []string
}

func (s *session) changes() *changeset { return &changeset{s: s, texts: map[string]*string{}} }

// text returns a file's text with the changes so far.
func (c *changeset) text(path string) (string, error) {
	if t, ok := c.texts[path]; ok {
		if t == nil {
			return "", &overlay.Error{Op: "read", Branch: c.s.branch.name, Path: path, Kind: overlay.NotExist}
		}
		return *t, nil
	}
	t, err := c.s.branch.text(path)
	if err == nil && !utf8.ValidString(t) {
		err = wire.Errorf(wire.CodeInvalidParams, "%s is not UTF-8 text: give its whole new content", path)
	}
	return t, err
}

func (c *changeset) set(path string, t *string) {
	if _, again := c.texts[path]; !again {
		c.order = append(c.order, path)
	}
	c.texts[path] = t
}

// file adds one FileEdit.
func (c *changeset) file(e agent.FileEdit) error {
	if err := e.Validate(); err != nil {
		return err
	}
	path, err := c.s.locate(e.URI)
	if err != nil {
		return err
	}
	switch {
	case e.Delete:
		if _, err := c.s.branch.over.Lookup(path); err != nil && c.texts[path] == nil {
			return invalid(err)
		}
		c.set(path, nil)
	case e.Text != nil:
		c.set(path, e.Text)
	default:
		return c.edit(path, e.Edits)
	}
	return nil
}

func (c *changeset) edit(path string, edits []text.Edit) error {
	old, err := c.text(path)
	if err != nil {
		return invalid(err)
	}
	t, err := text.ApplyEdits(old, edits)
	if err != nil {
		return wire.Errorf(wire.CodeInvalidParams, "the edits of %s: %v", path, err)
	}
	c.set(path, &t)
	return nil
}

// invalid makes an error of the overlay one about what the agent asked for.
func invalid(err error) error {
	var clear *wire.Error
	if errors.As(err, &clear) {
		return err
	}
	if k := overlay.KindOf(err); k == overlay.NoSpace || k == overlay.IO {
		return wire.Errorf(wire.CodeRequestFailed, "%v", err)
	}
	return wire.Errorf(wire.CodeInvalidParams, "%v", err)
}

// commit makes the changes. Where one fails, those before it are undone.
func (c *changeset) commit() error {
	b := c.s.branch
	var done []func()
	for _, path := range c.order {
		old, oldErr := b.over.ReadFile(path)
		var err error
		if t := c.texts[path]; t != nil {
			err = b.over.WriteFile(path, []byte(*t), 0)
			b.change(nil, path, *t, 0)
		} else {
			err = b.over.RemoveAll(path, overlay.Origin{})
		}
		if err != nil {
			for i := len(done) - 1; i >= 0; i-- {
				done[i]()
			}
			return invalid(c.s.d.explain(fmt.Errorf("no edit was made: %w", err)))
		}
		done = append(done, func() {
			if oldErr == nil {
				_ = b.over.WriteFile(path, old, 0) // what was there fitted before
				b.change(nil, path, string(old), 0)
			} else {
				_ = b.over.RemoveAll(path, overlay.Origin{})
			}
		})
	}
	if len(c.order) > 0 {
		c.s.d.branchChanged(b, nil)
	}
	return nil
}

// edit makes FileEdits in the branch, all or none.
func (s *session) edit(edits []agent.FileEdit) ([]string, error) {
	s.branch.editing.Lock()
	defer s.branch.editing.Unlock()
	c := s.changes()
	for _, e := range edits {
		if err := c.file(e); err != nil {
			return nil, err
		}
	}
	return c.order, c.commit()
}

// applyEdit takes a workspace edit that the server asked for while it answered
// this session: to the agent if it can, else into the branch.
func (s *session) applyEdit(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	if s.edits {
		return s.peer.Call(ctx, "workspace/applyEdit", s.ownVersions("workspace/applyEdit", params))
	}
	if err := s.takeWorkspaceEdit(params); err != nil {
		return json.Marshal(map[string]any{"applied": false, "failureReason": err.Error()})
	}
	return json.RawMessage(`{"applied":true}`), nil
}

// operation is one element of a WorkspaceEdit's documentChanges.
type operation struct {
	Kind           string // create, rename, delete; "" for edits of a document
	URI            string
	OldURI, NewURI string
	TextDocument   struct{ URI string }
	Edits          []text.Edit
}

// takeWorkspaceEdit makes the edit of params (ApplyWorkspaceEditParams) in the
// branch, all of it or nothing.
func (s *session) takeWorkspaceEdit(params json.RawMessage) error {
	var p struct {
		Edit struct {
			Changes         map[string][]text.Edit
			DocumentChanges []operation
		}
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return fmt.Errorf("the server's workspace edit is malformed: %w", err)
	}
	s.branch.editing.Lock()
	defer s.branch.editing.Unlock()
	c := s.changes()
	for uri, edits := range p.Edit.Changes {
		if p.Edit.DocumentChanges != nil {
			break // they are preferred where both are there, says LSP
		}
		if err := c.file(agent.FileEdit{URI: uri, Edits: edits}); err != nil {
			return err
		}
	}
	for _, o := range p.Edit.DocumentChanges {
		if err := c.operation(o); err != nil {
			return err
		}
	}
	return c.commit()
}

func (c *changeset) operation(o operation) error {
	switch o.Kind {
	case "":
		if len(o.Edits) == 0 {
			return nil
		}
		return c.file(agent.FileEdit{URI: o.TextDocument.URI, Edits: o.Edits})
	case "create":
		path, err := c.s.locate(o.URI)
		if err != nil {
			return err
		}
		if _, err := c.text(path); err == nil {
			return nil // overwrite is not the default, and an existing file is no error to agents
		}
		c.set(path, new(string))
	case "delete":
		return c.file(agent.FileEdit{URI: o.URI, Delete: true})
	case "rename":
		from, err := c.s.locate(o.OldURI)
		if err != nil {
			return err
		}
		to, err := c.s.locate(o.NewURI)
		if err != nil {
			return err
		}
		t, err := c.text(from)
		if err != nil {
			return errors.Join(err, fmt.Errorf("renaming %s to %s", from, to))
		}
		c.set(from, nil)
		c.set(to, &t)
	default:
		return fmt.Errorf("the server's workspace edit has an unknown operation %q", o.Kind)
	}
	return nil
}

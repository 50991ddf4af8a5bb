package front

import (
	"bytes"
	"encoding/json"
	"net/url"

	"shadowlsp/lsp/wire"
)

const (
	// maxMemory bounds the bytes of all remembered frames: initialize and its
	// answer are some tens of kilobytes, settings rarely more.
	maxMemory = 8 << 20
	// maxQuestions bounds the questions without an answer that are remembered,
	// and the different ones with one.
	maxQuestions = 128
	// maxQuestion bounds one of them in bytes: a question lists sections.
	maxQuestion = 64 << 10
)

// frame is one message with its direction. The body is never changed.
type frame struct {
	toServer bool
	body     []byte
}

// memory keeps the few frames that a daemon needs whenever it comes: initialize
// and its answer, each question for the configuration with its last answer, the
// last didChangeConfiguration. They are kept in the order in which they were
// seen, a newer one in place of what it supersedes, so that a daemon that is
// told them knows what one knows that was there from the beginning.
//
// It is a value without goroutines; outbox.mu guards the one in use.
type memory struct {
	kept      []memo
	bytes     int
	questions map[string]frame // workspace/configuration without an answer, by raw id
	initID    []byte
	answered  bool // initialize has been answered
}

// memo is one thing remembered.
type memo struct {
	key    string // what it is about; a newer memo of the same key supersedes it
	frames []frame
}

func (m memo) size() int {
	n := 0
	for _, f := range m.frames {
		n += len(f.body)
	}
	return n
}

// observe looks at a frame, remembers it if it matters, and returns the params
// of initialize if it is that. The body must not change afterwards.
func (m *memory) observe(f frame) (initialize json.RawMessage) {
	if !m.matters(f) {
		return nil
	}
	msg, err := wire.Parse(f.body)
	if err != nil {
		return nil
	}
	id := string(msg.ID)
	switch {
	case f.toServer && msg.Kind == wire.Request && msg.Method == "initialize":
		*m = memory{initID: msg.ID, questions: map[string]frame{}}
		m.remember("initialize", f)
		return orEmpty(msg.Params)
	case !m.answered && !f.toServer && msg.Kind == wire.Response && m.initID != nil && bytes.Equal(msg.ID, m.initID):
		m.answered = true
		m.remember("initialize answer", f)
	case f.toServer && msg.Method == "workspace/didChangeConfiguration":
		m.remember("didChangeConfiguration", f)
	case !f.toServer && msg.Kind == wire.Request && msg.Method == "workspace/configuration":
		if len(m.questions) >= maxQuestions {
			clear(m.questions) // that many without an answer: none will come
		}
		if len(f.body) <= maxQuestion {
			m.questions[id] = f
		}
	case f.toServer && msg.Kind == wire.Response:
		if question, ok := m.questions[id]; ok {
			delete(m.questions, id)
			q, _ := wire.Parse(question.body)
			m.remember("configuration "+string(q.Params), question, f)
		}
	}
	return nil
}

func orEmpty(params json.RawMessage) json.RawMessage {
	if params == nil {
		return json.RawMessage("{}")
	}
	return params
}

// matters says whether a frame is worth parsing: a cheap look that lets nothing
// pass that observe would keep. (A method spelled with escapes for letters is
// possible in JSON and used by nobody; one for the slash is, by PHP.)
func (m *memory) matters(f frame) bool {
	if !m.answered || f.toServer && len(m.questions) > 0 {
		return true
	}
	return bytes.Contains(f.body, []byte(`onfiguration"`)) || f.toServer && bytes.Contains(f.body, []byte(`"initialize"`))
}

// remember keeps frames as the newest about key. What does not fit is not kept.
func (m *memory) remember(key string, frames ...frame) {
	for i, old := range m.kept {
		if old.key == key {
			m.bytes -= old.size()
			m.kept = append(m.kept[:i:i], m.kept[i+1:]...)
			break
		}
	}
	memo := memo{key, frames}
	if m.bytes+memo.size() > maxMemory || len(m.kept) >= maxQuestions+3 {
		return
	}
	m.kept = append(m.kept, memo)
	m.bytes += memo.size()
}

// frames returns all that is remembered, oldest first.
func (m *memory) frames() []frame {
	var all []frame
	for _, memo := range m.kept {
		all = append(all, memo.frames...)
	}
	return all
}

// folder returns the folder that the params of an initialize request name
// first, "" if none on this machine.
func folder(initialize json.RawMessage) string {
	var p struct {
		WorkspaceFolders []struct{ URI string }
		RootURI          string
		RootPath         string
	}
	// Members of unexpected types stay empty; the others are still read.
	_ = json.Unmarshal(initialize, &p)
	if len(p.WorkspaceFolders) > 0 {
		if path := filePath(p.WorkspaceFolders[0].URI); path != "" {
			return path
		}
	}
	if path := filePath(p.RootURI); path != "" {
		return path
	}
	return p.RootPath
}

// filePath returns the path of a file URI, "" for anything else.
func filePath(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
		return ""
	}
	return u.Path
}

package workspace

import "encoding/json"

// learn takes newer knowledge of the editor; instances that run get its
// settings, later ones all of it. It says whether that may change answers.
func (p *pool) learn(l learnt) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation.Add(1)
	old := p.learnt
	l.Defaults = old.Defaults
	p.learnt, p.asked.learnt = l, l
	moved := foldersMoved(old.Initialize, l.Initialize)
	if moved != nil {
		for _, inst := range p.instances {
			p.goLocked(func() { inst.moveFolders(moved) })
		}
	}
	if sameJSON(learnt{Settings: old.Settings, Answers: old.Answers}, learnt{Settings: l.Settings, Answers: l.Answers}) {
		return moved != nil && len(p.instances) > 0
	}
	settings := l.Settings
	if settings == nil {
		settings = json.RawMessage(`{"settings":null}`) // the server asks for what it wants
	}
	for _, inst := range p.instances {
		p.goLocked(func() { inst.configure(settings) })
	}
	return len(p.instances) > 0
}

// configuration answers one item of workspace/configuration.
func (p *pool) configuration(item configItem) json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bySection json.RawMessage
	for _, a := range p.learnt.Answers {
		if a.Item == item {
			return a.Value
		}
		if a.Item.Section == item.Section {
			bySection = a.Value
		}
	}
	if bySection == nil {
		return p.learnt.setting(item.Section)
	}
	return bySection
}

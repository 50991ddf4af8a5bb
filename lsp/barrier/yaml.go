package barrier

import (
	"encoding/json"
	"path"

	"shadowlsp/lsp/wire"
)

// yaml is the profile of yaml-language-server. It publishes without a version,
// and only by counting can a publish be told to be the last one (1.25.0,
// server/src/languageserver/handlers/validationHandlers.js):
//
//   - A change clears the timer of the one before and sets it anew, 200 ms. When
//     it is over the check begins with a request for the document's settings
//     (resolveValidationState, "[LANGUAGE]" with the document as scope).
//   - Each check that has begun publishes once, whatever comes of it, and so does
//     closing. Nothing else does.
//   - So when a request was answered since the text was sent, and no check has
//     begun between, the next one is of that text; and when as many publishes
//     have come as checks have begun, the last of them was its.
//
// A check that was under way when the next began makes it go once more. A failed
// check is told as telemetry, and published as nothing found: then there is an
// error.
//
// Schemas come from the disk and from the settings. Those of the network are left
// out, the store's catalogue and Kubernetes' too: a shadow has none, and waiting
// for it would be all that comes of it. A document that names a schema in the
// network by itself has an error that says so.
func yaml() Profile {
	return Profile{
		Name:        "yaml-language-server",
		Commands:    []string{"yaml-language-server"},
		ServerNames: []string{"yaml-language-server"},
		Languages: []Language{
			{"docker-compose.yml", "dockercompose"}, {"docker-compose.yaml", "dockercompose"},
			{".yaml", "yaml"}, {".yml", "yaml"},
		},
		Settings: Settings{
			Section: "yaml", Nested: true,
			Options: []Option{
				{Name: "schemaStore.enable", Value: Raw(false)},
				{Name: "kubernetesCRDStore.enable", Value: Raw(false)},
			},
		},
		AllFiles: true,
		OpenOnly: true,
		New: func(h Host) Barrier {
			return newSettled(h, "yaml-language-server", settledProof{
				name: "counted", starts: yamlStarts, fails: yamlFails, reads: yamlReads,
			})
		},
	}
}

// yamlStarts recognises the request with which a check begins.
func yamlStarts(m wire.Message) string {
	if m.Method != "workspace/configuration" {
		return ""
	}
	var p struct {
		Items []struct {
			ScopeURI string `json:"scopeUri"`
			Section  string `json:"section"`
		} `json:"items"`
	}
	if json.Unmarshal(m.Params, &p) != nil || len(p.Items) != 1 || p.Items[0].Section == "" || p.Items[0].Section[0] != '[' {
		return ""
	}
	return p.Items[0].ScopeURI
}

// yamlFails recognises the news of a check that failed (yamlValidation.js).
func yamlFails(m wire.Message) string {
	if m.Method != "telemetry/event" {
		return ""
	}
	var p struct {
		Name       string
		Properties struct{ Error string }
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Name != "yaml.validation.error" {
		return ""
	}
	return orElse(p.Properties.Error, p.Name)
}

// yamlReads: any of these may be a schema.
func yamlReads(_ Document, file string) bool {
	switch path.Ext(file) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}

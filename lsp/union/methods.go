package union

import (
	"encoding/json"
	"strings"

	"shadowlsp/lsp/barrier"
)

// Method says where a method stands in capabilities.
type Method struct {
	// Server is the member of the server's capabilities that offers it.
	Server string
	// Option is the member of that one which must be true as well, or "".
	Option string
	// Client is the path in the client's capabilities below which
	// dynamicRegistration stands.
	Client string
	// Registers is the method that a registration of it names, where that is not
	// itself.
	Registers string
}

// Methods are the requests that a server offers by a capability.
var Methods = map[string]Method{
	"textDocument/hover":                     {Server: "hoverProvider", Client: "textDocument.hover"},
	"textDocument/completion":                {Server: "completionProvider", Client: "textDocument.completion"},
	"completionItem/resolve":                 {Server: "completionProvider", Option: "resolveProvider", Registers: "textDocument/completion"},
	"textDocument/signatureHelp":             {Server: "signatureHelpProvider", Client: "textDocument.signatureHelp"},
	"textDocument/declaration":               {Server: "declarationProvider", Client: "textDocument.declaration"},
	"textDocument/definition":                {Server: "definitionProvider", Client: "textDocument.definition"},
	"textDocument/typeDefinition":            {Server: "typeDefinitionProvider", Client: "textDocument.typeDefinition"},
	"textDocument/implementation":            {Server: "implementationProvider", Client: "textDocument.implementation"},
	"textDocument/references":                {Server: "referencesProvider", Client: "textDocument.references"},
	"textDocument/documentHighlight":         {Server: "documentHighlightProvider", Client: "textDocument.documentHighlight"},
	"textDocument/documentSymbol":            {Server: "documentSymbolProvider", Client: "textDocument.documentSymbol"},
	"textDocument/codeAction":                {Server: "codeActionProvider", Client: "textDocument.codeAction"},
	"codeAction/resolve":                     {Server: "codeActionProvider", Option: "resolveProvider", Registers: "textDocument/codeAction"},
	"textDocument/codeLens":                  {Server: "codeLensProvider", Client: "textDocument.codeLens"},
	"codeLens/resolve":                       {Server: "codeLensProvider", Option: "resolveProvider", Registers: "textDocument/codeLens"},
	"textDocument/documentLink":              {Server: "documentLinkProvider", Client: "textDocument.documentLink"},
	"documentLink/resolve":                   {Server: "documentLinkProvider", Option: "resolveProvider", Registers: "textDocument/documentLink"},
	"textDocument/documentColor":             {Server: "colorProvider", Client: "textDocument.colorProvider"},
	"textDocument/colorPresentation":         {Server: "colorProvider", Registers: "textDocument/documentColor"},
	"textDocument/formatting":                {Server: "documentFormattingProvider", Client: "textDocument.formatting"},
	"textDocument/rangeFormatting":           {Server: "documentRangeFormattingProvider", Client: "textDocument.rangeFormatting"},
	"textDocument/rangesFormatting":          {Server: "documentRangeFormattingProvider", Option: "rangesSupport", Registers: "textDocument/rangeFormatting"},
	"textDocument/onTypeFormatting":          {Server: "documentOnTypeFormattingProvider", Client: "textDocument.onTypeFormatting"},
	"textDocument/rename":                    {Server: "renameProvider", Client: "textDocument.rename"},
	"textDocument/prepareRename":             {Server: "renameProvider", Option: "prepareProvider", Registers: "textDocument/rename"},
	"textDocument/foldingRange":              {Server: "foldingRangeProvider", Client: "textDocument.foldingRange"},
	"textDocument/selectionRange":            {Server: "selectionRangeProvider", Client: "textDocument.selectionRange"},
	"textDocument/linkedEditingRange":        {Server: "linkedEditingRangeProvider", Client: "textDocument.linkedEditingRange"},
	"textDocument/prepareCallHierarchy":      {Server: "callHierarchyProvider", Client: "textDocument.callHierarchy"},
	"callHierarchy/incomingCalls":            {Server: "callHierarchyProvider", Registers: "textDocument/prepareCallHierarchy"},
	"callHierarchy/outgoingCalls":            {Server: "callHierarchyProvider", Registers: "textDocument/prepareCallHierarchy"},
	"textDocument/prepareTypeHierarchy":      {Server: "typeHierarchyProvider", Client: "textDocument.typeHierarchy"},
	"typeHierarchy/supertypes":               {Server: "typeHierarchyProvider", Registers: "textDocument/prepareTypeHierarchy"},
	"typeHierarchy/subtypes":                 {Server: "typeHierarchyProvider", Registers: "textDocument/prepareTypeHierarchy"},
	"textDocument/semanticTokens/full":       {Server: "semanticTokensProvider", Option: "full", Registers: "textDocument/semanticTokens"},
	"textDocument/semanticTokens/full/delta": {Server: "semanticTokensProvider", Option: "full", Registers: "textDocument/semanticTokens"},
	"textDocument/semanticTokens/range":      {Server: "semanticTokensProvider", Option: "range", Registers: "textDocument/semanticTokens"},
	"textDocument/semanticTokens":            {Server: "semanticTokensProvider", Client: "textDocument.semanticTokens"},
	"textDocument/moniker":                   {Server: "monikerProvider", Client: "textDocument.moniker"},
	"textDocument/inlayHint":                 {Server: "inlayHintProvider", Client: "textDocument.inlayHint"},
	"inlayHint/resolve":                      {Server: "inlayHintProvider", Option: "resolveProvider", Registers: "textDocument/inlayHint"},
	"textDocument/inlineValue":               {Server: "inlineValueProvider", Client: "textDocument.inlineValue"},
	"textDocument/inlineCompletion":          {Server: "inlineCompletionProvider", Client: "textDocument.inlineCompletion"},
	"workspace/symbol":                       {Server: "workspaceSymbolProvider", Client: "workspace.symbol"},
	"workspaceSymbol/resolve":                {Server: "workspaceSymbolProvider", Option: "resolveProvider", Registers: "workspace/symbol"},
	"workspace/executeCommand":               {Server: "executeCommandProvider", Client: "workspace.executeCommand"},
	"workspace/willCreateFiles":              {Server: "workspace.fileOperations.willCreate", Client: "workspace.fileOperations"},
	"workspace/willRenameFiles":              {Server: "workspace.fileOperations.willRename", Client: "workspace.fileOperations"},
	"workspace/willDeleteFiles":              {Server: "workspace.fileOperations.willDelete", Client: "workspace.fileOperations"},
}

// Offers says whether a server's InitializeResult offers a method. What no
// capability stands for counts as offered.
func Offers(result json.RawMessage, method string) bool {
	m, known := Methods[method]
	if !known {
		return true
	}
	value, ok := provider(result, m.Server)
	if !ok || m.Option == "" {
		return ok
	}
	option, ok := barrier.Lookup(value, m.Option)
	return ok && on(option)
}

// Commands are those that the server executes.
func Commands(result json.RawMessage) (commands []string) {
	value, _ := provider(result, "executeCommandProvider")
	raw, _ := barrier.Lookup(value, "commands")
	_ = json.Unmarshal(raw, &commands) // what is no list names none
	return commands
}

// provider returns a member of the capabilities that is on.
func provider(result json.RawMessage, member string) (json.RawMessage, bool) {
	value, ok := barrier.Lookup(result, append([]string{"capabilities"}, strings.Split(member, ".")...)...)
	return value, ok && on(value)
}

func on(value json.RawMessage) bool { return string(value) != "null" && string(value) != "false" }

// Registration is a dynamic registration, as client/registerCapability has it.
type Registration struct {
	ID      string          `json:"id,omitempty"`
	Method  string          `json:"method"`
	Options json.RawMessage `json:"registerOptions,omitempty"`
}

// With puts dynamic registrations into an InitializeResult as if the server had
// answered so. What has no static form is left out.
func With(result json.RawMessage, registrations []Registration) json.RawMessage {
	for _, r := range registrations {
		m, known := Methods[r.Method]
		if !known || m.Registers != "" {
			continue
		}
		value := json.RawMessage("true")
		if len(r.Options) > 0 && r.Options[0] == '{' {
			value = barrier.Apply(r.Options, []barrier.Edit{{Path: []string{"documentSelector"}}})
		}
		at := append([]string{"capabilities"}, strings.Split(m.Server, ".")...)
		if old, ok := barrier.Lookup(result, at...); ok {
			value = merged(old, value)
		}
		result = barrier.Apply(result, []barrier.Edit{{Path: at, Value: value}})
	}
	return result
}

// Unregistration takes a registration back.
type Unregistration struct {
	ID     string `json:"id"`
	Method string `json:"method"`
}

// Takes says whether a client, by its initialize params, takes registrations of a
// method.
func Takes(client json.RawMessage, method string) bool {
	m := Methods[method]
	if m.Client == "" {
		return false
	}
	dynamic, _ := barrier.Lookup(client, append(append([]string{"capabilities"}, strings.Split(m.Client, ".")...), "dynamicRegistration")...)
	return string(dynamic) == "true"
}

// Registrations are a server's capabilities as dynamic registrations, of those
// methods for which the client declared them, limited to some languages.
func Registrations(result, client json.RawMessage, languages []string) (all []Registration) {
	type filter struct {
		Language string `json:"language"`
	}
	var selector []filter
	for _, id := range languages {
		selector = append(selector, filter{id})
	}
	for name, m := range Methods {
		if !Offers(result, name) || !Takes(client, name) {
			continue
		}
		options, _ := provider(result, m.Server)
		if len(options) == 0 || options[0] != '{' {
			options = json.RawMessage("{}")
		}
		if strings.HasPrefix(name, "textDocument/") && selector != nil {
			options = barrier.Apply(options, []barrier.Edit{{Path: []string{"documentSelector"}, Value: barrier.Raw(selector)}})
		}
		all = append(all, Registration{Method: name, Options: options})
	}
	return all
}

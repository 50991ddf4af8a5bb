package doctor

import (
	"context"
	"fmt"
	"strings"

	"shadowlsp/internal/workspace"
)

// languageServers are a finding for each server that agents are given, or would be if
// it were installed.
func languageServers(ctx context.Context, cfg Config) (found []Finding) {
	const name = "language server"
	list, err := workspace.ListServers(ctx, cfg.Place, cfg.Env, cfg.Person)
	if err != nil {
		return []Finding{{
			Name: name, Detail: err.Error(), Lost: "no daemon starts, so agents have no server", Remedy: "correct the file",
		}}
	}
	for _, s := range list {
		switch s.State {
		case "used":
			detail := fmt.Sprintf("%s: %s (%s), with %v", s.Name, strings.Join(s.Command, " "), s.Why, s.With)
			f := Finding{Name: name, OK: s.Lacks == "", Detail: detail}
			if !f.OK {
				f.Detail, f.Lost, f.Remedy = detail+"; "+s.Lacks, "what it would find", "install that in the project"
			}
			found = append(found, f)
		case "missing":
			found = append(found, Finding{
				Name: name, Detail: fmt.Sprintf("%s is not on the PATH (%s)", s.Name, s.Why),
				Lost: "files of " + strings.Join(s.Languages, ", ") + " are neither linted nor answered for", Remedy: s.Install,
			})
		}
	}
	if len(found) == 0 {
		return []Finding{{
			Name: name, Detail: "none is known for " + cfg.Place.Root, Lost: "agents have no server until an editor has attached",
			Remedy: "open the workspace in an editor that runs `shadowlsp -- SERVER`, or name one: `shadowlsp connect -- SERVER`",
		}}
	}
	return found
}

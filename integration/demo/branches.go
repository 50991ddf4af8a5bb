package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"shadowlsp/integration/client"
	"shadowlsp/integration/stage"
	"shadowlsp/lsp/docuri"
)

// web is what the person has beside the Go code, where there is a server for it.
var web = map[string]string{
	"web/tsconfig.json": "{\"compilerOptions\": {\"strict\": true, \"noEmit\": true, \"types\": []}, \"include\": [\"*.ts\"]}\n",
	"web/price.ts":      "export function price(cents: number): number {\n  return cents / 100;\n}\n",
	"web/cart.ts":       "import { price } from './price';\n\nexport const total = price(250) + price(99);\n",
}

// mend is a script that gives all calls of the function in branch b its new first
// argument.
const mend = `sed -i -E 's/(= |if )Compare\(/\1Compare(0, /' semver/*.go && sed -i 's/semver\.Compare(/semver.Compare(0, /' */*.go`

// author is whose commits are.
var author = []string{"GIT_AUTHOR_NAME=agent", "GIT_AUTHOR_EMAIL=agent@example.test", "GIT_COMMITTER_NAME=agent", "GIT_COMMITTER_EMAIL=agent@example.test"}

// tool runs a program in the person's folder and returns what it writes to both
// streams, and its exit status.
func (p *play) tool(ctx context.Context, argv ...string) (out string, status int, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.stage.Dir, append(os.Environ(), p.stage.Env...)
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text)
	}
	return string(text), cmd.ProcessState.ExitCode(), nil
}

// must is tool for what has to succeed.
func (p *play) must(ctx context.Context, argv ...string) (string, error) {
	out, status, err := p.tool(ctx, argv...)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s: exit status %d\n%s", strings.Join(argv, " "), status, out)
	}
	return out, err
}

// commandsRun runs the same command in both branches, of which one is mended.
func (p *play) commandsRun(ctx context.Context) error {
	p.step("Commands run in branches: agent b mends all callers with `shadowlsp exec --branch b -- sed …`, then `go vet ./...` runs in both branches")
	p.agents[1].Close() // what it holds open is its text, whatever commands write
	p.agents[1] = nil
	if _, err := p.must(ctx, p.shadowlsp, "exec", "--branch", branches[1], "--", "sh", "-c", mend); err != nil {
		return err
	}
	for i, branch := range branches {
		began := time.Now()
		out, status, err := p.tool(ctx, p.shadowlsp, "exec", "--branch", branch, "--", "go", "vet", "./...")
		if err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		if i == 1 {
			p.promise(status == 0, "in branch %s it passes: exit status %d (%.1f s)%s", branch, status, took, list(": ", lines(out, 3)))
			continue
		}
		p.promise(status != 0 && strings.Contains(out, words[i]) && !strings.Contains(out, words[1-i]),
			"in branch %s it fails: exit status %d (%.1f s)", branch, status, took)
		for _, line := range lines(out, 4) {
			p.show("  %s", line)
		}
	}
	out, status, err := p.tool(ctx, "git", "--no-optional-locks", "status", "--short")
	p.promise(err == nil && status == 0 && out == "", "git sees no change in the person's folder%s", list(": ", lines(out, 3)))
	return err
}

// lines are the first lines of a text.
func lines(text string, most int) []string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	if all[0] == "" {
		return nil
	}
	return all[:min(most, len(all))]
}

// languages lets both agents lint another language over the connection that any
// agent has.
func (p *play) languages(ctx context.Context) error {
	if p.typescript == "" {
		p.step("A second language in the same folder is left out: typescript-language-server is not there (scripts/setup node installs it where Node.js is)")
		return nil
	}
	p.step("The same branches in another language: web/price.ts gets a new type in each, web/cart.ts is opened by nobody; one call, shadowlsp/lint, makes the edit and lints")
	var conns [2]*client.Client
	for i, branch := range branches {
		c, err := client.Start(client.Config{Command: []string{p.shadowlsp, "connect", "--branch", branch}, Dir: p.stage.Dir, Env: p.stage.Env, Stderr: os.Stderr})
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Initialize(ctx, docuri.FromPath(p.stage.Dir), map[string]any{}, nil); err != nil {
			return fmt.Errorf("agent %s: %w", branch, err)
		}
		conns[i] = c
	}
	uri := func(path string) string { return docuri.FromPath(filepath.Join(p.stage.Dir, path)) }
	for round := range 3 {
		for i, c := range conns {
			word := fmt.Sprintf("%sPrice%d", words[i], round)
			text := fmt.Sprintf("export interface %s { amount: number }\n\nexport function price(cents: number): %[1]s {\n  return { amount: cents };\n}\n", word)
			began := time.Now()
			raw, err := c.Call(ctx, "shadowlsp/lint", map[string]any{
				"edits": []any{map[string]string{"uri": uri("web/price.ts"), "text": text}}, "uris": []string{uri("web/cart.ts")},
			})
			if err != nil {
				return fmt.Errorf("agent %s: %w", branches[i], err)
			}
			var found struct {
				Items []struct {
					Verdict     string
					Diagnostics []struct{ Message string }
				}
			}
			if err := json.Unmarshal(raw, &found); err != nil {
				return fmt.Errorf("%w: %s", err, raw)
			}
			right := len(found.Items) == 1 && found.Items[0].Verdict == "fresh" && len(found.Items[0].Diagnostics) == 1 &&
				strings.Contains(found.Items[0].Diagnostics[0].Message, word) && !strings.Contains(string(raw), words[1-i])
			if !right {
				p.promise(false, "agent %s, web/cart.ts: %s", branches[i], raw)
				continue
			}
			p.promise(true, "agent %s, web/cart.ts (%v): %s", branches[i], time.Since(began).Round(time.Millisecond),
				strings.ReplaceAll(found.Items[0].Diagnostics[0].Message, p.stage.Dir+"/", ""))
		}
	}
	return nil
}

// becomesACommit brings branch b to git, and leaves the person's folder alone.
func (p *play) becomesACommit(ctx context.Context) error {
	const name, why = "compare-options", "semver: Compare takes options"
	folders := []string{"semver", "module", "modfile"} // the Go part of it
	p.step("What becomes of a branch: `shadowlsp branch diff b %[1]s`, then `shadowlsp branch apply b %[1]s --git %[2]s -m …`", strings.Join(folders, " "), name)
	before, err := stage.Read(p.stage.Dir)
	if err != nil {
		return err
	}
	head, err := p.must(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	patch, err := p.must(ctx, append([]string{p.shadowlsp, "branch", "diff", branches[1]}, folders...)...)
	if err != nil {
		return err
	}
	shown := false
	for line := range strings.Lines(patch) {
		shown = shown || strings.HasPrefix(line, "diff --git") && strings.Contains(line, target.Dependent)
		if shown && (strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+")) {
			p.show("%s", strings.TrimSpace(line))
		}
		if shown && strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++") {
			break
		}
	}
	if _, err := p.must(ctx, append([]string{p.shadowlsp, "branch", "apply", branches[1], "--git", name, "-m", why}, folders...)...); err != nil {
		return err
	}
	commit, err := p.must(ctx, "git", "show", "--stat=72", "--format=%P %s", name)
	if err != nil {
		return err
	}
	said := lines(commit, 20)
	p.promise(said[0] == strings.TrimSpace(head)+" "+why, "git branch %s is one commit on the person's HEAD", name)
	for _, line := range said[1:] {
		if line != "" {
			p.show("%s", line)
		}
	}
	again, err := p.must(ctx, "git", "diff", "HEAD", name)
	if err != nil {
		return err
	}
	p.promise(changes(again) == changes(patch), "and it holds what the diff shows")
	after, err := stage.Read(p.stage.Dir)
	if err != nil {
		return err
	}
	var touched []string
	for _, path := range before.Differences(after) {
		if path != ".git" && !strings.HasPrefix(path, ".git/objects") && !strings.HasPrefix(path, ".git/refs") && !strings.HasPrefix(path, ".git/logs") {
			touched = append(touched, path)
		}
	}
	p.promise(len(touched) == 0, "no file of the person's folder has changed, nor HEAD, nor the index%s", list(": ", touched))
	return nil
}

// changes are the lines of a patch that say what changes.
func changes(patch string) (all string) {
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			all += line
		}
	}
	return all
}

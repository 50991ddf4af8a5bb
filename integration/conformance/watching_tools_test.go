package conformance

import (
	"fmt"
	"path/filepath"
	"testing"

	"shadowlsp/integration/need"
)

// Compilers and servers that watch must notice all that is written: by programs
// in the view, by agents, and by the person. (That what an agent edits over LSP
// reaches Vite in a command is in integration/commands.)

// edits makes each kind of change of src/own.EXT, and of src/base.EXT where it is
// the person's, and waits each time until a program has noticed.
func (v *view) edits(t *testing.T, l *listener, ext string, text, notices func(word string) string) {
	t.Helper()
	own, base := "src/own."+ext, "src/base."+ext
	for i := range 2 {
		for _, c := range []struct {
			word string
			edit func(text string)
		}{
			{"OfTheView", func(text string) { v.sh("printf %s " + quote(text) + " >" + own) }},
			{"OfTheAgent", func(text string) { v.agent(v.branch, own, text) }},
			{"SavedByThePerson", func(text string) {
				native(t, v.root, "printf %s "+quote(text)+" >src/.saved && mv src/.saved "+base)
			}},
			{"WrittenByThePerson", func(text string) { native(t, v.root, "printf %s "+quote(text)+" >"+base) }},
			{"AnotherOfTheView", func(text string) { v.sh("printf %s " + quote(text) + " >src/.new; mv src/.new " + own) }},
		} {
			word := fmt.Sprint(c.word, i)
			c.edit(text(word))
			l.hears(notices(word))
		}
	}
	native(t, v.root, "rm "+base)
	l.hears(notices("gone"))
}

// TestTypeScriptWatches is tsc --watch.
func TestTypeScriptWatches(t *testing.T) {
	t.Parallel()
	tsc := need.Tool(t, "tsc")
	v := over(t, map[string]string{
		"tsconfig.json": `{"compilerOptions":{"strict":true,"noEmit":true,"module":"es2020","moduleResolution":"node","noLib":true,"types":[]},"include":["src/main.ts","src/lib.d.ts"]}`,
		"src/lib.d.ts":  "interface Array<T> {} interface Boolean {} interface CallableFunction {} interface Function {} interface IArguments {} interface NewableFunction {} interface Number {} interface Object {} interface RegExp {} interface String {}\n",
		"src/main.ts":   "import './own'\nimport { base } from './base'\nexport { base }\n",
		"src/own.ts":    "export const own = 1",
		"src/base.ts":   "export const base = 1",
	})
	v.before = nil
	l := v.listen(t, "exec "+quote(tsc)+" -p . --watch --preserveWatchOutput --pretty false | sed -u -n -e 's/.*Watching for file changes.*/watching/p' -e 's/.*Cannot find name .\\([A-Za-z0-9]*\\).*/\\1/p' -e 's/.*Cannot find module.*/gone/p'")
	v.edits(t, l, "ts", func(word string) string { return "export const base = " + word }, func(word string) string { return word })
}

// TestViteWatches is Vite's server. It keeps what it serves until its watcher has
// noticed a change. (It says that it watches somewhat too early: a file of its own
// making proves it.)
func TestViteWatches(t *testing.T) {
	t.Parallel()
	vite, err := filepath.EvalSymlinks(need.Tool(t, "vite"))
	must(t, err)
	v := over(t, map[string]string{
		"package.json": `{"type":"module"}`,
		"src/own.js":   "export const text = 'own'", "src/base.js": "export const text = 'base'", "src/probe.js": "export const text = 'p0'",
	})
	v.before = nil
	l := v.listen(t, `exec node --input-type=module -e '
import { createServer } from "`+filepath.Join(filepath.Dir(vite), "../dist/node/index.js")+`"
import { writeFileSync } from "node:fs"
const s = await createServer({ configFile: false, logLevel: "silent", appType: "custom", server: { middlewareMode: true, hmr: false, ws: false }, optimizeDeps: { noDiscovery: true } })
const serve = async name => { try { return /text = .(\w*)/.exec((await s.transformRequest("/src/" + name)).code)?.[1] } catch { return "gone" } }
s.watcher.on("unlink", path => path.endsWith("base.js") && console.log("gone"))
const last = {}
let probes = 0
const look = async () => {
  for (const name of ["own.js", "base.js"]) {
    const text = await serve(name)
    // It leaves out what comes within 50 ms of another change of the file.
    if (last[name] !== text && last[name]) setTimeout(console.log, 200, text)
    last[name] = text
  }
  if (probes >= 0) {
    if (/p[1-9]/.test(await serve("probe.js"))) { probes = -1; console.log("watching") }
    else writeFileSync("src/probe.js", "export const text = \"p" + ++probes + "\"")
  }
  setTimeout(look, 50)
}
look()'`)
	v.edits(t, l, "js", func(word string) string { return "export const text = '" + word + "'" }, func(word string) string { return word })
}

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

// TestViteWatches is Vite's server: what it serves after what it has noticed.
func TestViteWatches(t *testing.T) {
	t.Parallel()
	vite, err := filepath.EvalSymlinks(need.Tool(t, "vite"))
	must(t, err)
	v := over(t, map[string]string{"package.json": `{"type":"module"}`, "src/own.js": "export const text = 'own'", "src/base.js": "export const text = 'base'"})
	v.before = nil
	l := v.listen(t, `exec node --input-type=module -e '
import { createServer } from "`+filepath.Join(filepath.Dir(vite), "../dist/node/index.js")+`"
const s = await createServer({ configFile: false, logLevel: "silent", appType: "custom", server: { middlewareMode: true, hmr: false, ws: false }, optimizeDeps: { noDiscovery: true } })
const serve = async name => { try { return /text = .(\w*)/.exec((await s.transformRequest(name)).code)?.[1] } catch { return "gone" } }
await serve("/src/own.js"), await serve("/src/base.js")
s.watcher.on("all", (what, path) => setTimeout(async () => console.log(await serve("/src/" + path.replace(/.*\//, ""))), 100))
if (s.watcher._readyEmitted) console.log("watching")
else s.watcher.on("ready", () => console.log("watching"))'`)
	v.edits(t, l, "js", func(word string) string { return "export const text = '" + word + "'" }, func(word string) string { return word })
}

package overlay

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Resolve follows the symlinks in path, within the branch, to the path of
// something that is no symlink (or does not exist). Outside: a link leads out of the root.
func (b *Branch) Resolve(path string) (string, error) {
	p, err := b.follow(path)
	return p, b.wrap("resolve", path, err)
}

// maxLinks is how many symlinks one path may lead through, as in the kernel.
const maxLinks = 40

func (b *Branch) follow(path string) (string, error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	done, rest := "", path
	for links := 0; rest != ""; {
		name, tail, _ := strings.Cut(rest, "/")
		switch name {
		case "", ".":
			rest = tail
			continue
		case "..":
			if done == "" {
				return "", kindError(Outside)
			}
			done, _ = split(done)
			rest = tail
			continue
		}
		next := join(done, name)
		var h hit
		n, err := b.resolve(next, &h)
		switch {
		case KindOf(err) == NotExist:
			done, rest = next, tail
			continue
		case err != nil:
			return "", err
		case !isLnk(n.Attr.Mode):
			done, rest = next, tail
			continue
		}
		if links++; links > maxLinks {
			return "", unix.ELOOP
		}
		target, err := n.readlink()
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(target, "/") {
			in, ok := b.store.inside(target)
			if !ok {
				return "", kindError(Outside)
			}
			done, target = "", in
		}
		rest = join(target, tail)
		if tail == "" {
			rest = target
		}
	}
	return done, nil
}

// inside is the path below the root that an absolute path means.
func (s *Store) inside(abs string) (string, bool) {
	if abs == s.basePath {
		return "", true
	}
	if rest, ok := strings.CutPrefix(abs, s.basePath+string(os.PathSeparator)); ok {
		return rest, true
	}
	return "", false
}

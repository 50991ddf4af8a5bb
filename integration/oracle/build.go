package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// everyBuild is one in how many steps the person builds in.
const everyBuild = 6

// build is the person who saves the file that was edited on a branch, without having
// changed it, and builds. What that leaves in the folder is newer than the branch's
// edit, and of another text.
func (r *run) build(ctx context.Context, after *branch, saved string) error {
	command := r.server.Builds
	if command == nil {
		return nil
	}
	if after != nil {
		// Behind the edit: an answer, whatever it says (the file may be gone).
		if _, err := after.conn.Call(ctx, "shadowlsp/read", map[string]any{"uri": after.uri(saved)}); ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if err := os.Chtimes(filepath.Join(r.stage.Dir, saved), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = r.stage.Dir, append(os.Environ(), r.env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return nil // not all of it can be built: that is the project's
	}
	if err != nil {
		return fmt.Errorf("the person's %v: %w: %.500s", command, err, out)
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"shadowlsp/internal/launch"
	"shadowlsp/internal/root"
	"shadowlsp/internal/workspace"
)

func (o *options) traceCommand() *cobra.Command {
	var off bool
	c := &cobra.Command{
		Use:   "trace FILE | trace --off",
		Short: "Have the running daemon append every message and event to a file",
		Long: `The trace holds what agents and shadow servers say from now on, with every turn,
switch and barrier, one JSON object per line, until "shadowlsp trace --off" or the
end of the daemon. What an editor and its own server say is written by the
editor's command, where that was started with --trace-dump.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if off != (len(args) == 0) || len(args) > 1 {
				return errors.New("a file or --off is needed, and nothing else")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := o.here()
			if err != nil {
				return err
			}
			file := ""
			if !off {
				if file, err = filepath.Abs(args[0]); err != nil {
					return err
				}
			}
			err = traceInto(cmd.Context(), p, file)
			if launch.NotRunning(err) {
				return fmt.Errorf("no daemon runs for %s: give --trace-dump to what starts one", p.Root)
			}
			return err
		},
	}
	c.Flags().BoolVar(&off, "off", false, "end the trace")
	return c
}

// traceInto has the running daemon of p trace into a file, "" for none.
func traceInto(ctx context.Context, p root.Place, file string) error {
	conn, err := launch.Join(ctx, p, launch.Trace)
	if err != nil {
		return err
	}
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	if err := json.NewEncoder(conn).Encode(workspace.TraceRequest{File: file}); err != nil {
		return err
	}
	var a workspace.TraceAnswer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return fmt.Errorf("the daemon's answer is not understood (is it of another version?): %w", err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// joinOrStart connects to the daemon of p, started where none runs.
func (o *options) joinOrStart(ctx context.Context, s launch.Starter, p root.Place, k launch.Kind) (net.Conn, error) {
	if err := s.Ensure(ctx, p); err != nil {
		return nil, err
	}
	if err := o.wishTrace(ctx, p); err != nil {
		return nil, err
	}
	return launch.Join(ctx, p, k)
}

// wishTrace passes --trace-dump on to the daemon, which may have run before
// without one.
func (o *options) wishTrace(ctx context.Context, p root.Place) error {
	if o.traceDump == "" {
		return nil
	}
	file, err := filepath.Abs(o.traceDump)
	if err != nil {
		return err
	}
	return traceInto(ctx, p, file)
}

package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"shadowlsp/internal/workspace"
)

func (o *options) serversCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "servers [--json]",
		Short: "List the language servers for this workspace: found, spare, missing and how to install them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.here()
			if err != nil {
				return err
			}
			list, err := workspace.ListServers(cmd.Context(), p, os.Environ(), personConfig())
			if err != nil {
				return err
			}
			if asJSON {
				return workspace.WriteServers(os.Stdout, list)
			}
			return workspace.PrintServers(os.Stdout, list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// personConfig is the person's configuration file, which need not be there.
func personConfig() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "shadowlsp", "config.toml")
}

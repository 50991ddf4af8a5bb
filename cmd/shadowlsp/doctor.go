package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"shadowlsp/internal/doctor"
)

func (o *options) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [--json]",
		Short: "Try what this machine can do for the workspace, and say how it could do more",
		Long: `doctor tries each ability for real and says which mode results. Its exit code is
0 only when the full mode holds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.here()
			if err != nil {
				return err
			}
			r := doctor.Examine(cmd.Context(), doctor.Config{Place: p, Env: os.Environ(), Mode: o.mode.wanted(), Person: personConfig()})
			if asJSON {
				err = r.WriteJSON(os.Stdout)
			} else {
				colour := term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
				err = r.Print(os.Stdout, colour)
			}
			if err == nil && !r.OK {
				err = exitCode(1)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

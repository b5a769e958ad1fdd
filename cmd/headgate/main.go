// Command headgate runs a governed gateway to a model API, prints the configuration that it would run with, checks
// plugin configurations, shows what gateways do, and runs the service that shares limits among replicas.
//
// Errors are one line on stderr that says what to do. The exit status is 2 when the command line is wrong, and 1 after
// any other error.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// A terminal is where a command reads and writes.
type terminal struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

func main() {
	os.Exit(headgate(terminal{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

// The exit statuses.
const (
	statusFailed = 1
	statusUsage  = 2
)

// A usageError says what is wrong with the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// headgate runs the command that args name and returns the exit status.
func headgate(term terminal, args []string) int {
	root := rootCommand(term)
	root.SetArgs(plainArguments(root, args))
	err := root.Execute()
	if err == nil {
		return 0
	}
	newNotes(term.err).say("%v", err)
	if errors.As(err, &usageError{}) {
		return statusUsage
	}
	return statusFailed
}

// rootCommand is headgate itself, with all its commands.
func rootCommand(term terminal) *cobra.Command {
	cobra.EnableCommandSorting = false // the order below is that of use
	printsVersion := false
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Headgate: admission control for model traffic, inside Envoy.",
		Args:  noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error {
			if printsVersion {
				return printVersion(term)
			}
			return usageError{fmt.Errorf("no command: %s", wantedCommands(c))}
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(term.in)
	root.SetOut(term.out)
	root.SetErr(term.err)
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { printHelp(term.out, c) })
	newFlagSet(root).addSwitch(&printsVersion, "version", "Print the version, and end.")
	root.AddCommand(
		runCommand(term), renderCommand(term), checkCommand(term), topCommand(term), fleetCommand(term),
		schemaCommand(term), envoyCommand(term), completionCommand(term), versionCommand(term))
	root.AddCommand(manualCommand(term))
	root.SetHelpCommand(helpCommand())
	return root
}

// noSuchCommand refuses what follows headgate and names no command.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("no command %q: %s", args[0], wantedCommands(c))}
}

// wantedCommands names the commands that there are.
func wantedCommands(c *cobra.Command) string {
	var names []string
	for _, known := range c.Root().Commands() {
		if !known.Hidden {
			names = append(names, known.Name())
		}
	}
	last := len(names) - 1
	return "want " + strings.Join(names[:last], ", ") + " or " + names[last] + " (try `headgate help`)"
}

// noArguments refuses what follows a command's flags.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unexpected argument %q (see `headgate help %s`)", args[0], c.Name())}
}

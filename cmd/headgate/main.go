// Command headgate runs a governed gateway to a model API, prints the configuration that it would run with, and checks
// plugin configurations.
//
// Errors are one line on stderr that says what to do, and exit status 1.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// A terminal is where a command reads and writes.
type terminal struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// A command is the first word behind headgate. run gets the arguments behind that word.
type command struct {
	name     string
	synopsis string
	summary  string
	run      func(term terminal, args []string) error
}

// commands is a function: a variable would refer to itself, since runHelp needs it.
func commands() []command {
	return []command{
		{"run", "run --upstream URL [FLAGS]", "Run Envoy as a governed gateway to the model API at URL.", runRun},
		{"render", "render envoy|istio [FLAGS]", "Print the configuration that run would use.", runRender},
		{"check", "check FILE", "Validate a plugin configuration in JSON. FILE can be -, for stdin.", runCheck},
		{"version", "version", "Print the version.", runVersion},
		{"help", "help [COMMAND]", "Print the commands, or the flags of a command.", runHelp},
	}
}

func main() {
	os.Exit(headgate(terminal{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

// headgate runs the command that args name and returns the exit status.
func headgate(term terminal, args []string) int {
	err := dispatch(term, args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(term.err, "headgate:", err)
	return 1
}

func dispatch(term terminal, args []string) error {
	if len(args) == 0 {
		return errors.New("no command: want run, render, check, version or help (try `headgate help`)")
	}
	name := strings.TrimLeft(args[0], "-") // --version and --help are commands too
	if name == "h" {
		name = "help"
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(term, args[1:])
		}
	}
	return fmt.Errorf("no command %q: want run, render, check, version or help (try `headgate help`)", args[0])
}

func runHelp(term terminal, args []string) error {
	if len(args) > 0 && args[0] != "help" {
		return dispatch(term, []string{args[0], "--help"})
	}
	fmt.Fprintln(term.out, "Headgate: admission control for model traffic, inside Envoy.\n\nUsage:")
	for _, c := range commands() {
		fmt.Fprintf(term.out, "  headgate %-28s %s\n", c.synopsis, c.summary)
	}
	return nil
}

// printUsage prints a command's line and its flags.
func printUsage(w io.Writer, name string, flags *flag.FlagSet) {
	for _, c := range commands() {
		if c.name == name {
			fmt.Fprintf(w, "Usage: headgate %s\n%s\n", c.synopsis, c.summary)
		}
	}
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if _, isSwitch := f.Value.(switchValue); isSwitch {
			value = "[on|off]"
		}
		if f.DefValue != "" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  %-40s %s\n", strings.TrimSpace("--"+f.Name+" "+value), usage)
	})
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func helpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the commands, or the flags of a command.",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			about, _, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if about == c.Root() {
				if err := noSuchCommand(about, args); err != nil {
					return err
				}
			}
			return about.Help()
		},
	}
	newFlagSet(c)
	return c
}

// printHelp prints what a command is for, examples, and its commands or its flags.
func printHelp(w io.Writer, c *cobra.Command) {
	fmt.Fprintln(w, c.Short)
	if c.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands:")
		for _, known := range c.Commands() {
			if known.IsAvailableCommand() || known.Name() == "help" {
				fmt.Fprintf(w, "  headgate %-32s %s\n", known.Use, known.Short)
			}
		}
	} else {
		fmt.Fprintf(w, "\nUsage: headgate %s\n", c.Use)
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	printFlags(w, c.Flags())
}

// printFlags prints the flags in their order, below the titles of their sections. The section that every command has
// comes last.
func printFlags(w io.Writer, flags *pflag.FlagSet) {
	last := sectionOf(flags.Lookup("help"))
	sections := slices.DeleteFunc(sectionsOf(flags), func(title string) bool { return title == last })
	for _, title := range append(sections, last) {
		fmt.Fprintf(w, "\n%s:\n", title)
		flags.VisitAll(func(f *pflag.Flag) {
			if sectionOf(f) == title {
				printFlag(w, f)
			}
		})
	}
}

// flagUsage is what stands behind a flag's name, and what the flag is for.
func flagUsage(f *pflag.Flag) (value, usage string) {
	value, usage = pflag.UnquoteUsage(f)
	if isSwitch(f) {
		value = "[on|off]"
	}
	if f.DefValue != "" {
		usage += " (default " + f.DefValue + ")"
	}
	return value, usage
}

func printFlag(w io.Writer, f *pflag.Flag) {
	value, usage := flagUsage(f)
	name := strings.TrimSpace("--" + f.Name + " " + value)
	fmt.Fprintf(w, "  %-*s", usageColumn-2, name)
	for i, line := range wrapped(usage, usageWidth) {
		if i > 0 || len(name) > usageColumn-3 {
			fmt.Fprintf(w, "\n%*s", usageColumn, "")
		}
		fmt.Fprint(w, line)
	}
	fmt.Fprintln(w)
}

// The usage of flags has a column of names and a column of sentences.
const (
	usageColumn = 42
	usageWidth  = 78
)

// wrapped breaks a text between words into lines of at most so many characters.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualCommand prints the manual page as Markdown, from which `make dist` makes the page that man shows.
func manualCommand(term terminal) *cobra.Command {
	c := &cobra.Command{
		Use:    "manual",
		Short:  "Print the manual page as Markdown.",
		Hidden: true,
		Args:   noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			printManual(term.out, c.Root())
			return nil
		},
	}
	newFlagSet(c)
	return c
}

// printManual prints all commands and flags in the form of a manual page. Its first line is what md2man reads as title.
// md2man makes sections of headings of the first two levels, and subsections of the third.
func printManual(w io.Writer, root *cobra.Command) {
	name, about, _ := strings.Cut(strings.TrimSuffix(root.Short, "."), ": ")
	fmt.Fprintf(w, "%% %q \"1\" \"\" \"headgate %s\" \"%s\"\n\n", strings.ToUpper(name), toolVersion(), name)
	fmt.Fprintf(w, "# NAME\n\nheadgate - %s\n\n# SYNOPSIS\n\n**headgate** *COMMAND* [*FLAGS*]\n\n", markdown(about))
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			printManualOf(w, c)
		}
	}
	fmt.Fprint(w, "# FLAGS OF ALL COMMANDS\n\n**--help**\n: Print the flags, and end.\n\n")
	fmt.Fprintf(w, "# EXIT STATUS\n\n**0**\n: Success.\n\n**%d**\n: Something failed. Standard error says what.\n\n"+
		"**%d**\n: The command line is wrong.\n", statusFailed, statusUsage)
}

func printManualOf(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, "# headgate %s\n\n%s\n\n", markdown(c.Use), markdown(c.Short))
	for _, title := range sectionsOf(c.Flags()) {
		heading := fmt.Sprintf("### %s\n\n", markdown(title))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if sectionOf(f) == title && f.Name != "help" && f.Name != "version" {
				fmt.Fprint(w, heading)
				heading = ""
				printManualFlag(w, f)
			}
		})
	}
	if c.Example != "" {
		fmt.Fprintf(w, "### Examples\n\n```\n%s\n```\n\n", strings.Trim(c.Example, "\n"))
	}
}

func printManualFlag(w io.Writer, f *pflag.Flag) {
	value, usage := flagUsage(f)
	if value != "" {
		value = " " + markdown(value)
	}
	fmt.Fprintf(w, "**--%s**%s\n: %s\n\n", f.Name, value, markdown(usage))
}

// markdown is a text with what Markdown would read as marks escaped.
func markdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`,
		">", `\>`, "#", `\#`, "|", `\|`, "~", `\~`).Replace(text)
}

// sectionsOf are the titles of the flags' sections in their order.
func sectionsOf(flags *pflag.FlagSet) (titles []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if title := sectionOf(f); !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
	})
	return titles
}

package main

import (
	"context"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
	"github.com/headgate/headgate/cmd/headgate/internal/top"
)

func topCommand(term terminal) *cobra.Command {
	c, _, options := newTop(term)
	c.RunE = func(*cobra.Command, []string) error {
		if len(options.Admins) == 0 {
			options.Admins = []string{adminapi.Default}
		}
		options.Admins = withoutRepeated(options.Admins) // one that is named twice would be counted twice
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return top.Run(ctx, *options)
	}
	return c
}

// newTop makes the command top without its action, its flags, and the options that they fill.
func newTop(term terminal) (*cobra.Command, *flagSet, *top.Options) {
	c := &cobra.Command{
		Use:     "top [FLAGS]",
		Short:   "Show live who holds the permits, who waits and why, and change limits.",
		Args:    noArguments,
		Example: topExamples,
	}
	options := &top.Options{Interval: time.Second, In: term.in, Out: term.out}
	flags := newFlagSet(c)
	flags.startSection("What to show, and how")
	addListFlag(flags, &options.Admins, "admin",
		"Look at the admin listener at `URL`, or HOST:PORT. Give the flag once for each gateway: they are summed. "+
			"(default "+adminapi.Default+")", adminapi.ParseAddress)
	flags.addSwitch(&options.Once, "once", "Print one table, and end.")
	flags.addSwitch(&options.JSON, "json",
		"Print JSON in the form of the admin API: with --once an object, without it one in a line for each refresh.")
	flags.addDuration(&options.Interval, "interval", 100*time.Millisecond, time.Hour,
		"Ask for new figures every `DURATION`.")
	return c, flags, options
}

func withoutRepeated(names []string) []string {
	kept := []string{}
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

const topExamples = `  # Live, in the terminal: the gateway of headgate run --admin 127.0.0.1:10001.
  headgate top

  # Two gateways as one.
  headgate top --admin 10.0.0.1:10001 --admin 10.0.0.2:10001

  # For a script.
  headgate top --once --json`

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func completionCommand(term terminal) *cobra.Command {
	generators := map[string]func(root *cobra.Command) error{
		"bash": func(root *cobra.Command) error { return root.GenBashCompletionV2(term.out, true) },
		"zsh":  func(root *cobra.Command) error { return root.GenZshCompletion(term.out) },
		"fish": func(root *cobra.Command) error { return root.GenFishCompletion(term.out, true) },
	}
	c := &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a script that completes commands and flags in that shell.",
		Example:   "  source <(headgate completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || generators[args[0]] == nil {
				return usageError{errors.New("completion for which shell? want bash, zsh or fish")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return generators[args[0]](c.Root()) },
	}
	newFlagSet(c)
	return c
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/admission/config"
)

func schemaCommand(term terminal) *cobra.Command {
	c := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of plugin configurations, for editors.",
		Example: "  headgate schema >headgate.schema.json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(term.out, indentedJSON(config.JSONSchema()))
			return err
		},
	}
	newFlagSet(c)
	return c
}

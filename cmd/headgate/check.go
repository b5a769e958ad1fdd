package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/check"
)

func checkCommand(term terminal) *cobra.Command {
	strict := false
	c := &cobra.Command{
		Use:   "check [--strict] FILE...",
		Short: "Say what is wrong with configurations, and what they do. FILE can be -, for standard input.",
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usageError{errors.New("check wants one file or more: headgate check FILE... (- is standard input)")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, files []string) error { return checkFiles(term, files, strict) },
	}
	newFlagSet(c).addSwitch(&strict, "strict", "End with exit status 1 for warnings too.")
	return c
}

// checkFiles checks files and prints what is wrong with them and what they do.
func checkFiles(term terminal, files []string, strict bool) error {
	errorCount, warningCount := 0, 0
	for _, name := range files {
		text, err := readFile(term, name)
		if err != nil {
			return err
		}
		if name == "-" {
			name = "standard input"
		}
		report := check.File(name, text)
		report.Print(term.out)
		e, w := report.Count()
		errorCount, warningCount = errorCount+e, warningCount+w
	}
	found := fmt.Sprintf("check found %s", counted(errorCount, "error"))
	if warningCount > 0 {
		found += " and " + counted(warningCount, "warning")
	}
	switch {
	case errorCount > 0:
		return errors.New(found)
	case strict && warningCount > 0:
		return fmt.Errorf("check found %s, which --strict does not allow", counted(warningCount, "warning"))
	}
	return nil
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// readFile reads a file, or standard input for -. It reads no more than check takes, so that an endless file ends too.
func readFile(term terminal, name string) ([]byte, error) {
	in := term.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return io.ReadAll(io.LimitReader(in, check.MaxBytes+1))
}

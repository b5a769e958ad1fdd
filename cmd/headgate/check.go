package main

import (
	"fmt"
	"io"
	"os"

	"github.com/headgate/headgate/admission/config"
)

func runCheck(term terminal, files []string) error {
	text, err := readFile(term, files[0])
	if err != nil {
		return err
	}
	cfg, err := config.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	fmt.Fprintf(term.out, "%s is valid: %d pools, %d routes\n", files[0], len(cfg.Pools), len(cfg.Routes))
	return nil
}

func readFile(term terminal, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(term.in)
	}
	return os.ReadFile(name)
}

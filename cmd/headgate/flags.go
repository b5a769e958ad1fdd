package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A flagSet is a flag.FlagSet whose errors are one line that names the flag as the documents do.
type flagSet struct {
	*flag.FlagSet
	refused error // why the last value was refused
}

func newFlagSet(command string) *flagSet {
	set := flag.NewFlagSet(command, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return &flagSet{FlagSet: set}
}

// parse reads args and returns what follows the flags. After --help it prints the usage and returns flag.ErrHelp.
func (f *flagSet) parse(term terminal, args []string) ([]string, error) {
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(term.out, f.Name(), f.FlagSet)
		return nil, err
	case f.refused != nil:
		return nil, f.refused
	case err != nil:
		return nil, fmt.Errorf("%w (see `headgate help %s`)", err, f.Name())
	}
	return f.Args(), nil
}

// parseAll is parse for a command that takes flags only.
func (f *flagSet) parseAll(term terminal, args []string) error {
	rest, err := f.parse(term, args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q (see `headgate help %s`)", rest[0], f.Name())
	}
	return err
}

// given reports whether the arguments had the flag.
func (f *flagSet) given(name string) bool {
	found := false
	f.Visit(func(set *flag.Flag) { found = found || set.Name == name })
	return found
}

// A settable is a flag's value with a parser of its own.
type settable struct {
	shown string
	set   func(string) error
}

func (s settable) String() string        { return s.shown }
func (s settable) Set(text string) error { return s.set(text) }

// value declares a flag that parse reads into target; the usage shows the value shown as its default.
func value[T any](f *flagSet, target *T, name, shown, usage string, parse func(string) (T, error)) {
	f.Var(settable{shown, func(text string) error {
		parsed, err := parse(text)
		if err != nil {
			f.refused = fmt.Errorf("--%s %q: %w", name, text, err)
			return err
		}
		*target = parsed
		return nil
	}}, name, usage)
}

// maxCount keeps the sum of any two counts below the million that envoy.yaml's circuit breakers let through.
const maxCount = 100_000

func wholeNumber(least int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > maxCount {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, maxCount)
		}
		return n, nil
	}
}

// maxQueueTimeout: whoever waits longer than this for a permit has long been given up on by its client.
const maxQueueTimeout = time.Hour

func queueTimeout(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > maxQueueTimeout || d%time.Millisecond != 0 {
		return 0, errors.New("want a duration from 1ms to 1h, e.g. 30s or 250ms")
	}
	return d, nil
}

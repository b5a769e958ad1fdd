package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
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
	err := f.Parse(f.join(args))
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

// A settable is a flag's value with a parser of its own. A switch can be given without one, which turns it on.
type settable struct {
	shown    string
	set      func(string) error
	isSwitch bool
}

func (s settable) String() string        { return s.shown }
func (s settable) Set(text string) error { return s.set(text) }
func (s settable) IsBoolFlag() bool      { return s.isSwitch }

// value declares a flag that parse reads into target; the usage shows the value shown as its default.
func value[T any](f *flagSet, target *T, name, shown, usage string, parse func(string) (T, error)) {
	f.Var(settable{shown: shown, set: setter(f, name, parse, func(v T) { *target = v })}, name, usage)
}

// list declares a flag that can be given many times, each time for one more element of target.
func list[T any](f *flagSet, target *[]T, name, usage string, parse func(string) (T, error)) {
	f.Var(settable{set: setter(f, name, parse, func(v T) { *target = append(*target, v) })}, name, usage)
}

func setter[T any](f *flagSet, name string, parse func(string) (T, error), take func(T)) func(string) error {
	return func(text string) error {
		parsed, err := parse(text)
		if err != nil {
			f.refused = fmt.Errorf("--%s %q: %w", name, text, err)
			return err
		}
		take(parsed)
		return nil
	}
}

// onOff declares a switch: --name, --name on, --name=off.
func (f *flagSet) onOff(target *bool, name, usage string) {
	shown := "off"
	if *target {
		shown = "on"
	}
	f.Var(settable{shown, setter(f, name, parseSwitch, func(on bool) { *target = on }), true}, name, usage)
}

// switchWords are what a switch can be followed by.
var switchWords = map[string]bool{"on": true, "true": true, "off": false, "false": false}

func parseSwitch(text string) (bool, error) {
	on, known := switchWords[text]
	if !known {
		return false, errors.New("want on or off")
	}
	return on, nil
}

// join makes one argument of a switch and the word that follows it, which package flag would take for no part of it.
func (f *flagSet) join(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		declared := f.Lookup(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"))
		if !strings.HasPrefix(arg, "-") || declared == nil {
			joined = append(joined, arg)
			continue
		}
		value, ours := declared.Value.(settable)
		if i+1 < len(args) && !strings.Contains(arg, "=") {
			_, isWord := switchWords[args[i+1]]
			switch {
			case ours && value.isSwitch && (isWord || !strings.HasPrefix(args[i+1], "-")):
				i++
				arg += "=" + args[i]
			case ours && !value.isSwitch:
				joined = append(joined, arg) // its value is no flag, whatever it looks like
				i++
				arg = args[i]
			}
		}
		joined = append(joined, arg)
	}
	return joined
}

// duration declares a flag for a duration from least to most, in whole milliseconds.
func (f *flagSet) duration(target *time.Duration, name string, least, most time.Duration, usage string) {
	value(f, target, name, short(*target), usage, spanFrom(least, most))
}

func spanFrom(least, most time.Duration) func(string) (time.Duration, error) {
	want := fmt.Errorf("want a duration from %s to %s, e.g. 30s or 250ms", short(least), short(most))
	return func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most || d%time.Millisecond != 0 {
			return 0, want
		}
		return d, nil
	}
}

// short is a duration without zeroes at its end, and up to some minutes in seconds: 120s, 1h30m.
func short(d time.Duration) string {
	text := d.String()
	if d%time.Second == 0 && d <= 10*time.Minute {
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	for _, unit := range []string{"m", "h"} {
		zero := map[string]string{"m": "0s", "h": "0m"}[unit]
		text = strings.Replace(text+"|", unit+zero+"|", unit+"|", 1)
		text = strings.TrimSuffix(text, "|")
	}
	return text
}

// order sees to it that one duration is not above another. A default gives way; of two that were given, it is an error.
func (f *flagSet) order(lower string, low *time.Duration, higher string, high *time.Duration) error {
	switch {
	case *low <= *high:
	case !f.given(higher):
		*high = *low
	case !f.given(lower):
		*low = *high
	default:
		return fmt.Errorf("--%s %s is above --%s %s: want it the other way round", lower, short(*low), higher, short(*high))
	}
	return nil
}

// maxCount keeps the sum of any two counts below the million that envoy.yaml's circuit breakers let through.
const maxCount = 100_000

func wholeNumber(least int) func(string) (int, error) { return numberTo(least, maxCount) }

func numberTo(least, most int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// maxQueueTimeout: whoever waits longer than this for a permit has long been given up on by its client.
const maxQueueTimeout = time.Hour

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

// A flagSet is a flag.FlagSet whose errors are one line that names the flag as the documents do. It has --help.
type flagSet struct {
	*flag.FlagSet
	refused error // why the last value was refused
}

func newFlagSet(command string) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet(command, flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	f.addHelp()
	return f
}

// parse reads args and returns what follows the flags. After --help it prints the usage and returns flag.ErrHelp.
func (f *flagSet) parse(term terminal, args []string) ([]string, error) {
	err := f.Parse(f.joinSwitches(args))
	switch {
	case errors.Is(err, flag.ErrHelp), errors.Is(f.refused, flag.ErrHelp):
		printUsage(term.out, f.Name(), f.FlagSet)
		return nil, flag.ErrHelp
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

// isGiven reports whether the arguments had the flag.
func (f *flagSet) isGiven(name string) bool {
	found := false
	f.Visit(func(given *flag.Flag) { found = found || given.Name == name })
	return found
}

// A flagValue is the value of a flag that isn't a switch.
type flagValue struct {
	shown string // as the usage shows the default
	set   func(string) error
}

func (v flagValue) String() string        { return v.shown }
func (v flagValue) Set(text string) error { return v.set(text) }

// addFlag declares a flag whose value parse reads into target. shown is the default as the usage prints it.
func addFlag[T any](f *flagSet, target *T, name, shown, usage string, parse func(string) (T, error)) {
	f.Var(flagValue{shown, setter(f, name, parse, func(v T) { *target = v })}, name, usage)
}

// addListFlag declares a flag that can be given many times, each time for one more element of target.
func addListFlag[T any](f *flagSet, target *[]T, name, usage string, parse func(string) (T, error)) {
	f.Var(flagValue{"", setter(f, name, parse, func(v T) { *target = append(*target, v) })}, name, usage)
}

// setter returns a function that parses a flag's text and calls take with the result. It keeps a refusal in f.
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

// A switchValue is the value of a switch. Every switch takes --name, --name on|off|true|false and
// --name=on|off|true|false.
type switchValue struct {
	on  *bool
	set func(string) error
}

func (s switchValue) String() string {
	if s.on != nil && *s.on {
		return "on"
	}
	return "off"
}

func (s switchValue) Set(text string) error { return s.set(text) }
func (switchValue) IsBoolFlag() bool        { return true } // package flag then sets it to "true" when no word is given

// addSwitch declares a switch.
func (f *flagSet) addSwitch(target *bool, name, usage string) {
	f.Var(switchValue{target, setter(f, name, parseSwitch, func(on bool) { *target = on })}, name, usage)
}

// addHelp declares --help, a switch that ends the parsing and prints the usage, unless it is set to off.
func (f *flagSet) addHelp() {
	set := func(text string) error {
		if on, err := parseSwitch(text); err == nil && !on {
			return nil
		}
		f.refused = flag.ErrHelp
		return flag.ErrHelp
	}
	f.Var(switchValue{set: set}, "help", "Print the flags, and end.")
}

func parseSwitch(text string) (bool, error) {
	switch text {
	case "on", "true":
		return true, nil
	case "off", "false":
		return false, nil
	}
	return false, errors.New("want on or off")
}

// joinSwitches writes a switch and the word behind it as one argument, --name=word. Package flag would take the word
// for the first argument behind the flags.
func (f *flagSet) joinSwitches(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		declared := f.declared(args[i])
		if declared == nil || i+1 == len(args) {
			joined = append(joined, args[i])
			continue
		}
		_, isSwitch := declared.Value.(switchValue)
		next := args[i+1]
		switch {
		case !isSwitch: // the next argument is its value, even one that looks like a flag
			joined = append(joined, args[i], next)
			i++
		case strings.HasPrefix(next, "-"):
			joined = append(joined, args[i])
		default:
			joined = append(joined, args[i]+"="+next)
			i++
		}
	}
	return joined
}

// declared returns the flag that an argument without a value names, or nil.
func (f *flagSet) declared(arg string) *flag.Flag {
	name, isFlag := strings.CutPrefix(arg, "-")
	if !isFlag {
		return nil
	}
	return f.Lookup(strings.TrimPrefix(name, "-"))
}

// shortest is the least duration of flags that can't be 0.
const shortest = time.Millisecond

// addDuration declares a flag for a duration from least to most, in whole milliseconds.
func (f *flagSet) addDuration(target *time.Duration, name string, least, most time.Duration, usage string) {
	addFlag(f, target, name, shortDuration(*target), usage, durationBetween(least, most))
}

func durationBetween(least, most time.Duration) func(string) (time.Duration, error) {
	want := fmt.Errorf("want a duration from %s to %s, e.g. 30s or 250ms", shortDuration(least), shortDuration(most))
	return func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most || d%time.Millisecond != 0 {
			return 0, want
		}
		return d, nil
	}
}

// shortDuration is a duration's text without zeroes at its end: 250ms, 120s, 1h30m. Up to ten minutes it is in seconds.
func shortDuration(d time.Duration) string {
	if d%time.Second == 0 && d <= 10*time.Minute {
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ensureOrder makes low at most high. A default is changed to fit the other duration. Two given durations in the wrong
// order are an error.
func (f *flagSet) ensureOrder(lower string, low *time.Duration, higher string, high *time.Duration) error {
	switch {
	case *low <= *high:
	case !f.isGiven(higher):
		*high = *low
	case !f.isGiven(lower):
		*low = *high
	default:
		return fmt.Errorf("--%s %s is above --%s %s: want it the other way round",
			lower, shortDuration(*low), higher, shortDuration(*high))
	}
	return nil
}

// maxCount is the greatest count a flag takes. The sum of any two counts stays below the million that envoy.yaml's
// circuit breakers let through.
const maxCount = 100_000

func wholeNumberFrom(least int) func(string) (int, error) { return wholeNumberBetween(least, maxCount) }

func wholeNumberBetween(least, most int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// maxQueueTimeout bounds --queue-timeout: after an hour a client has given up long ago.
const maxQueueTimeout = time.Hour

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagSet declares the flags of a command, in sections. Every command has --help.
type flagSet struct {
	*pflag.FlagSet
	command *cobra.Command
	words   map[string][]string // what shells offer as a flag's value
	section string              // the title above the flags that are declared next
}

// newFlagSet returns the command's flags, with --help among them.
func newFlagSet(c *cobra.Command) *flagSet {
	f := &flagSet{FlagSet: c.Flags(), command: c, words: map[string][]string{}}
	f.SortFlags = false
	f.startSection("Help and version")
	f.add(helpValue{switchValue{new(bool)}}, "help", "Print the flags, and end.").Shorthand = "h"
	return f
}

// startSection begins a section of the usage.
func (f *flagSet) startSection(title string) { f.section = title }

// sectionKey is the annotation that names a flag's section.
const sectionKey = "headgate_section"

func sectionOf(f *pflag.Flag) string { return f.Annotations[sectionKey][0] }

func (f *flagSet) add(value pflag.Value, name, usage string) *pflag.Flag {
	flag := &pflag.Flag{
		Name: name, Usage: usage, Value: value, DefValue: value.String(),
		Annotations: map[string][]string{sectionKey: {f.section}},
	}
	if isSwitch(flag) {
		flag.NoOptDefVal, flag.DefValue = "on", switchWord(value.String() == "on")
	}
	f.AddFlag(flag)
	if placeholder, _ := pflag.UnquoteUsage(flag); placeholder != "FILE" && placeholder != "PATH" {
		f.offerWords(name) // shells offer files by themselves
	}
	return flag
}

// offerWords has shells offer the words that f.words has for the flag.
func (f *flagSet) offerWords(name string) {
	words := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return f.words[name], cobra.ShellCompDirectiveNoFileComp
	}
	if err := f.command.RegisterFlagCompletionFunc(name, words); err != nil {
		panic(err) // the flag was just declared
	}
}

// isGiven reports whether the arguments had the flag.
func (f *flagSet) isGiven(name string) bool { return f.Changed(name) }

// givenIn returns the names of the flags of these sections that the arguments had.
func (f *flagSet) givenIn(sections []string) (names []string) {
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && slices.Contains(sections, sectionOf(flag)) {
			names = append(names, flag.Name)
		}
	})
	return names
}

// explainFlagError makes one line of an error of the flag library: it names the flag as the documents do.
func explainFlagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return usageError{fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())}
	}
	about := strings.TrimSuffix("headgate help "+c.Name(), " headgate")
	return usageError{fmt.Errorf("%w (see `%s`)", err, about)}
}

// A flagValue is the value of a flag that isn't a switch.
type flagValue struct {
	shown  string // as the usage shows the default
	set    func(string) error
	isList bool // each value that is given counts, not only the last
	secret bool // no message shows it
	times  int  // how often it was given
	last   string
}

func (v *flagValue) String() string { return v.shown }
func (*flagValue) Type() string     { return "value" }

func (v *flagValue) Set(text string) error {
	v.times, v.last = v.times+1, text
	return v.set(text)
}

// addFlag declares a flag whose value parse reads into target. shown is the default as the usage prints it.
func addFlag[T any](f *flagSet, target *T, name, shown, usage string, parse func(string) (T, error)) {
	f.add(&flagValue{shown: shown, set: setter(parse, func(v T) { *target = v })}, name, usage)
}

// addListFlag declares a flag that can be given many times, each time for one more element of target.
func addListFlag[T any](f *flagSet, target *[]T, name, usage string, parse func(string) (T, error)) {
	f.add(&flagValue{set: setter(parse, func(v T) { *target = append(*target, v) }), isList: true}, name, usage)
}

// setter returns a function that parses a flag's text and calls take with the result.
func setter[T any](parse func(string) (T, error), take func(T)) func(string) error {
	return func(text string) error {
		parsed, err := parse(text)
		if err == nil {
			take(parsed)
		}
		return err
	}
}

// A switchValue is the value of a switch. Every switch takes --name, --name on|off|true|false and
// --name=on|off|true|false.
type switchValue struct{ on *bool }

func (s switchValue) String() string { return switchWord(s.on != nil && *s.on) }

func (s switchValue) Set(text string) error {
	return setter(parseSwitch, func(on bool) { *s.on = on })(text)
}

func (switchValue) Type() string { return "bool" } // the type of switches in the flag library

// A helpValue is the value of --help. The library reads it and wants the words true and false.
type helpValue struct{ switchValue }

func (h helpValue) String() string { return strconv.FormatBool(h.on != nil && *h.on) }

func isSwitch(f *pflag.Flag) bool { return f.Value.Type() == "bool" }

// addSwitch declares a switch.
func (f *flagSet) addSwitch(target *bool, name, usage string) {
	f.add(switchValue{target}, name, usage)
}

func switchWord(on bool) string {
	if on {
		return "on"
	}
	return "off"
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

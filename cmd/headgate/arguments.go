package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainArguments writes the arguments in the forms that the flag library reads:
//   - a switch and the word behind it become one argument, --name=word. The library would take the word for the first
//     argument behind the flags;
//   - -name becomes --name. The library would take it for a row of one-letter flags.
func plainArguments(root *cobra.Command, args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], "__") { // what a completion script asks is for the library alone
		return args
	}
	found, _, err := root.Find(withTwoDashes(args))
	if err != nil {
		found = root
	}
	return joinSwitches(found, withTwoDashes(args))
}

var withOneDash = regexp.MustCompile(`^-[A-Za-z][\w-]`)

func withTwoDashes(args []string) []string {
	plain := slices.Clone(args)
	for i, arg := range plain {
		if withOneDash.MatchString(arg) {
			plain[i] = "-" + arg
		}
	}
	return plain
}

func joinSwitches(c *cobra.Command, args []string) []string {
	joined := []string{}
	for i := 0; i < len(args); i++ {
		flag := declared(c, args[i])
		if flag == nil || i+1 == len(args) {
			joined = append(joined, args[i])
			continue
		}
		next := args[i+1]
		switch {
		case !isSwitch(flag): // the next argument is its value, even one that looks like a flag
			joined = append(joined, args[i], next)
			i++
		case isValueOfSwitch(c, flag, next):
			joined = append(joined, args[i]+"="+next)
			i++
		default:
			joined = append(joined, args[i])
		}
	}
	return joined
}

// isValueOfSwitch reports whether the word behind a switch is its value. Any word is where the command takes no such
// argument: the switch then says what it wants. --help answers whatever follows it.
func isValueOfSwitch(c *cobra.Command, flag *pflag.Flag, word string) bool {
	if _, err := parseSwitch(word); err == nil {
		return true
	}
	return flag.Name != "help" && !strings.HasPrefix(word, "-") && c.HasParent() && c.ValidateArgs([]string{word}) != nil
}

// declared returns the flag that an argument without a value names, or nil.
func declared(c *cobra.Command, arg string) *pflag.Flag {
	name, isFlag := strings.CutPrefix(arg, "--")
	if !isFlag {
		return nil
	}
	return c.Flags().Lookup(name)
}

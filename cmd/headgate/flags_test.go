package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// commandsWithFlags make each command that has more flags than --help, without its action.
var commandsWithFlags = map[string]func() *cobra.Command{
	"run":    func() *cobra.Command { c, _, _ := newRun(); return c },
	"render": func() *cobra.Command { c, _, _ := newRender(); return c },
}

// parse reads arguments as headgate does, for a command without its action, and returns the command.
func parse(c *cobra.Command, args ...string) error {
	root := &cobra.Command{Use: "headgate", Args: noSuchCommand, SilenceErrors: true, SilenceUsage: true}
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpFunc(func(*cobra.Command, []string) {})
	root.AddCommand(c)
	c.Run = func(*cobra.Command, []string) {}
	root.SetArgs(plainArguments(root, append([]string{c.Name()}, args...)))
	return root.Execute()
}

// switchesOf are the names of the flags that the flag library takes without a value.
func switchesOf(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" {
			names = append(names, f.Name)
		}
	})
	return names
}

func TestFA6_EverySwitchTakesTheSameWords(t *testing.T) {
	words := map[string]string{
		"": "on", " on": "on", " true": "on", "=on": "on", "=true": "on",
		" off": "off", " false": "off", "=off": "off", "=false": "off",
	}
	for command, newCommand := range commandsWithFlags {
		names := switchesOf(newCommand())
		require.Subset(t, names, []string{"circuit-breaker", "help", "upstream-disable-keep-alives", "version"})
		for _, name := range names {
			for word, want := range words {
				for _, dashes := range []string{"-", "--"} {
					args := dashes + name + word + " --workers 3"
					c := newCommand()
					require.NoError(t, parse(c, strings.Fields(args)...), "%s %s", command, args)
					on := c.Flags().Lookup(name).Value.String()
					if name == "help" {
						on = map[string]string{"true": "on", "false": "off"}[on]
					}
					require.Equal(t, want, on, "%s %s", command, args)
					require.True(t, c.Flags().Changed("workers"), "%s %s: what follows the switch is read", command, args)
				}
			}
		}
	}
}

func TestFA6_EverySwitchRefusesOtherWords(t *testing.T) {
	for command, newCommand := range commandsWithFlags {
		for _, name := range switchesOf(newCommand()) {
			for _, form := range []string{" maybe", "=maybe"} {
				err := parse(newCommand(), strings.Fields("--"+name+form)...)
				if name == "help" && form == " maybe" {
					require.NoError(t, err, "%s --help answers whatever follows it", command)
					continue
				}
				require.EqualError(t, err, "--"+name+` "maybe": want on or off`, command)
			}
		}
	}
}

func TestFA6_ASwitchThatIsOffChangesNothing(t *testing.T) {
	status, plain, _ := call("", "run", "--upstream", "http://a", "--print-config")
	require.Equal(t, 0, status)
	for _, args := range []string{
		"--print-config --sample false", "--print-config --verbose off", "--print-config on", "--print-config --version off",
		"--print-config --upstream-disable-keep-alives false", "--help off --print-config",
	} {
		status, out, errs := call("", append([]string{"run", "--upstream", "http://a"}, strings.Fields(args)...)...)
		require.Empty(t, errs, args)
		require.Equal(t, 0, status, args)
		require.Equal(t, plain, out, args)
	}
}

func parsedRun(t *testing.T, args ...string) *runPlan {
	t.Helper()
	c, flags, plan := newRun()
	require.NoError(t, parse(c, append([]string{"--sample"}, args...)...))
	require.NoError(t, plan.resolve(flags))
	return plan
}

func TestSwitchesReachTheirSettings(t *testing.T) {
	for args, want := range map[string][2]bool{ // headroom, breaker
		"":                    {false, true},
		"--adaptive-headroom": {true, true},
		"--adaptive-headroom on --circuit-breaker off":           {true, false},
		"--adaptive-headroom=on --circuit-breaker=false":         {true, false},
		"-adaptive-headroom true -circuit-breaker off --verbose": {true, false},
		"--circuit-breaker --adaptive-headroom --verbose":        {true, true},
		"--wasm --circuit-breaker --adaptive-headroom off":       {false, true},
	} {
		plan := parsedRun(t, strings.Fields(args)...)
		require.Equal(t, want, [2]bool{plan.shaping.headroom, plan.shaping.breaker}, args)
	}
}

func TestADefaultChangesToFitAGivenFlag(t *testing.T) {
	plan := parsedRun(t, "--cb-open-timeout", "200s", "--cb-max-penalty", "1s", "--retry-wait-max", "300ms")
	require.Equal(t, 200*time.Second, plan.shaping.maxOpen)
	require.Equal(t, time.Second, plan.shaping.penalty)
	require.Equal(t, 300*time.Millisecond, plan.retries.waitMin)
	require.Equal(t, 300*time.Millisecond, plan.retries.minDelay)
}

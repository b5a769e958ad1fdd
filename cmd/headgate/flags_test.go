package main

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// flagSets make the flags of each command that has more than --help.
var flagSets = map[string]func() *flagSet{
	"run": func() *flagSet {
		flags := newFlagSet("run")
		plan := runPlan{gateway: defaultGateway()}
		plan.addFlags(flags)
		return flags
	},
	"render": func() *flagSet {
		flags := newFlagSet("render")
		g := defaultGateway()
		g.addFlags(flags)
		return flags
	},
}

// switchesOf are the names of the flags that package flag takes without a value.
func switchesOf(flags *flagSet) (names []string) {
	flags.VisitAll(func(f *flag.Flag) {
		if s, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && s.IsBoolFlag() {
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
	for command, newFlags := range flagSets {
		names := switchesOf(newFlags())
		require.Subset(t, names, []string{"circuit-breaker", "help", "upstream-disable-keep-alives", "version"})
		for _, name := range names {
			for word, want := range words {
				for _, dashes := range []string{"-", "--"} {
					args := dashes + name + word + " --workers 3"
					flags := newFlags()
					err := flags.parseAll(terminal{out: io.Discard}, strings.Fields(args))
					if name == "help" && want == "on" {
						require.ErrorIs(t, err, flag.ErrHelp, args)
						continue
					}
					require.NoError(t, err, "%s %s", command, args)
					require.Equal(t, want, flags.Lookup(name).Value.String(), "%s %s", command, args)
					require.True(t, flags.isGiven("workers"), "%s %s: what follows the switch is read", command, args)
				}
			}
		}
	}
}

func TestFA6_EverySwitchRefusesOtherWords(t *testing.T) {
	for command, newFlags := range flagSets {
		for _, name := range switchesOf(newFlags()) {
			for _, form := range []string{" maybe", "=maybe"} {
				err := newFlags().parseAll(terminal{out: io.Discard}, strings.Fields("--"+name+form))
				if name == "help" {
					require.ErrorIs(t, err, flag.ErrHelp, "%s --help answers whatever follows it", command)
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
	plan, err := parseRun(terminal{}, append([]string{"--sample"}, args...))
	require.NoError(t, err)
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

package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

func TestAGivenFailureHoldReplacesTheDefaultPenalty(t *testing.T) {
	penalty := func(flags ...string) admission.Duration {
		printed := printConfig(t, append(flags, "--retry", "0")...)
		return printed.at(t, "request").Pools[0].Breaker.Penalty
	}
	require.Equal(t, 2*admission.Second, penalty())
	require.Zero(t, penalty("--failure-hold", "5s"))
	require.Equal(t, 3*admission.Second, penalty("--failure-hold", "5s", "--cb-penalty", "3s"))
}

// holdFlags are the flags that say how long a permit stays out of use.
var holdFlags = []string{"release-cooldown", "cancel-cooldown", "failure-hold", "cb-penalty", "cb-max-penalty"}

func TestFA7_AHoldAboveTheBoundIsRefused(t *testing.T) {
	for _, name := range holdFlags {
		for _, above := range []string{"24h", "10m0.001s"} {
			status, out, errs := call("", "render", "istio", "--"+name, above)
			require.Equal(t, 2, status, name)
			require.Empty(t, out, name)
			require.Equal(t, "headgate: --"+name+` "`+above+"\": want a duration from 0s to 600s, e.g. 30s or 250ms\n", errs)
		}
		require.Equal(t, 10*admission.Minute, longestHold(t, "--"+name, "10m"), name)
	}
}

// Every flag either refuses a day or makes no hold of it.
func TestFA7_NoFlagMakesAHoldAboveTheBound(t *testing.T) {
	commandsWithFlags["render"]().Flags().VisitAll(func(f *pflag.Flag) {
		if isSwitch(f) {
			return
		}
		if status, _, _ := call("", "render", "istio", "--"+f.Name+"=24h"); status == 0 {
			require.NotContains(t, holdFlags, f.Name)
			require.LessOrEqual(t, longestHold(t, "--"+f.Name+"=24h"), admission.Duration(maxHold), f.Name)
		}
	})
}

// longestHold is the longest hold or penalty in the configuration that the flags make.
func longestHold(t *testing.T, flags ...string) admission.Duration {
	t.Helper()
	printed := printConfig(t, append(flags, "--retry", "0", "--adaptive-headroom")...)
	pool := printed.at(t, "request").Pools[0]
	return max(pool.Hold.Success, pool.Hold.Cancel, pool.Hold.Failure, pool.Breaker.Penalty, pool.Breaker.MaxPenalty)
}

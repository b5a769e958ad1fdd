package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

// A printedConfig is what `headgate run --print-config` prints.
type printedConfig struct {
	Plugin map[string]json.RawMessage
	Envoy  map[string]any
}

func printConfig(t *testing.T, args ...string) printedConfig {
	t.Helper()
	status, out, errs := call("", append([]string{"run", "--upstream", "http://a", "--print-config"}, args...)...)
	require.Empty(t, errs)
	require.Equal(t, 0, status)
	var printed printedConfig
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	return printed
}

func (p *printedConfig) at(t *testing.T, stage string) *config.Config {
	t.Helper()
	cfg, err := config.Parse(p.Plugin[stage])
	require.NoError(t, err)
	return cfg
}

func TestPrintConfigShowsWhatTheDefaultsBecome(t *testing.T) {
	printed := printConfig(t)
	require.Len(t, printed.Plugin, 2)
	invocation, attempt := printed.at(t, "invocation"), printed.at(t, "attempt")
	require.Equal(t, config.StageInvocation, invocation.Stage)
	require.Equal(t, config.StageAttempt, attempt.Stage)
	attempt.Stage = invocation.Stage
	require.Equal(t, invocation, attempt, "both stages have the same configuration")

	require.Len(t, invocation.Pools, 2)
	route, upstream := invocation.Pools[0], invocation.Pools[1]
	hold := admission.Hold{Success: 200 * admission.Millisecond, Cancel: 200 * admission.Millisecond, Failure: 2 * admission.Second}
	wanted := unprotectedRoute()
	wanted.Hold = hold
	require.Equal(t, wanted, route)
	require.Equal(t, config.Pool{
		Name: "upstream", Key: route.Key, Per: config.PerAttempt, Limit: 4, Queue: 4, MaxWait: 30 * admission.Second,
		Shaping: admission.Shaping{Hold: hold,
			Breaker: &admission.Breaker{
				Failures: 5, Window: 30 * admission.Second, Open: 10 * admission.Second, MaxOpen: 120 * admission.Second,
				Penalty: 2 * admission.Second, MaxPenalty: 60 * admission.Second,
			}},
	}, upstream)

	require.Equal(t, 2.0, printed.Envoy["retry_policy"].(map[string]any)["num_retries"])
	require.Equal(t, 5242880.0, printed.Envoy["retry_body_bytes"])
	require.Equal(t, "1860s", printed.Envoy["stream_idle_timeout"])
}

func TestPrintConfigWithoutRetriesIsOneStageAndOnePool(t *testing.T) {
	printed := printConfig(t, "--retry", "0", "--adaptive-headroom", "--adaptive-headroom-window", "7s",
		"--circuit-breaker", "off", "--failure-hold", "0")
	require.Len(t, printed.Plugin, 1)
	pools := printed.at(t, "request").Pools
	require.Len(t, pools, 1)
	require.Equal(t, config.PerInvocation, pools[0].Per)
	require.Nil(t, pools[0].Breaker)
	cooldowns := admission.Hold{Success: 200 * admission.Millisecond, Cancel: 200 * admission.Millisecond}
	require.Equal(t, cooldowns, pools[0].Hold)
	require.Equal(t, 7*admission.Second, pools[0].Headroom.Window)
	require.NotContains(t, printed.Envoy, "retry_policy")
	require.Equal(t, "1830s", printed.Envoy["stream_idle_timeout"])
}

// With every protection off, the pool has its limit and its queue only.
func TestPrintConfigWithEveryProtectionOff(t *testing.T) {
	printed := printConfig(t, "--retry", "0", "--circuit-breaker", "off",
		"--failure-hold", "0", "--release-cooldown", "0", "--cancel-cooldown", "0")
	require.Equal(t, []config.Pool{unprotectedRoute()}, printed.at(t, "request").Pools)
}

// unprotectedRoute is the pool route as the defaults make it, without holds, breaker and headroom.
func unprotectedRoute() config.Pool {
	return config.Pool{
		Name: "route", Key: []config.Dimension{config.DimensionRoute},
		Limit: 4, Queue: 100, MaxWait: 30 * admission.Second,
	}
}

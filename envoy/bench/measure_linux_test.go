package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A round with real Envoys: those filters that are there quickly.
func TestMeasuresEnvoy(t *testing.T) {
	o := options{rounds: 1, requests: 40, connections: 4, memoryRuns: 0}
	b, err := newBench(o)
	require.NoError(t, err)
	defer b.upstream.Stop()
	results, err := b.measure([]variant{
		{name: "no filter", sent: hotTraffic},
		{name: "Envoy's local_ratelimit", filter: localRateLimit, sent: coldTraffic},
		{name: "Envoy's admission_control", filter: admissionControl, sent: ungovernedTraffic},
	})
	require.NoError(t, err)
	require.Len(t, costPart(o, results).Table.Rows, 3)
}

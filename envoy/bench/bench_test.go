package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/envoy/bench/virtual"
)

// rounds makes a result whose rounds need so many microseconds a request.
func rounds(name string, micros ...int) result {
	r := result{variant: variant{name: name}}
	for _, us := range micros {
		r.cpu = append(r.cpu, time.Duration(us)*time.Microsecond)
	}
	return r
}

// What a filter adds is compared with no filter in the same round: here the machine is twice as slow in the second.
func TestCostComparesWithinARound(t *testing.T) {
	results := []result{rounds("no filter", 50, 100, 50), rounds("empty", 60, 120, 60), rounds("Headgate", 75, 150, 76)}
	results[2].resident, results[2].perWorker = 100<<20, 20<<20
	p := costPart(options{rounds: 3, requests: 10, connections: 2}, results)
	require.Equal(t, [][]string{
		{"no filter", "50.0", "", "", "", "", ""},
		{"empty", "60.0", "10.0 (10.0 to 20.0)", "20 %", "1.0", "", ""},
		{"Headgate", "76.0", "26.0 (25.0 to 50.0)", "50 %", "2.6", "100 MiB", "20 MiB"},
	}, p.Table.Rows)
	pictures, err := costPictures(results)
	require.NoError(t, err)
	require.Contains(t, string(pictures[0].SVG), ">Headgate<")
}

// An empty filter that seems to cost nothing is nothing to divide by.
func TestCostOfAnEmptyFilterMayBeNoise(t *testing.T) {
	results := []result{rounds("no filter", 50), rounds("empty", 50), rounds("Headgate", 75)}
	require.Equal(t, "noise", results[2].timesEmpty(results))
}

func TestQueueIsComparedWithTheLowerOfBoth(t *testing.T) {
	contenders := []*contender{
		{name: "Envoy without a queue", clients: 8, rates: []float64{1000, 1000}},
		{name: headgateName, clients: 8, rates: []float64{950, 950}},
		{name: headgateName, clients: 64, rates: []float64{990, 990}, most: 8},
		{name: haproxyName, clients: 64, rates: []float64{1100, 900}},
	}
	rows := queuedPart(options{rounds: 2}, contenders).Table.Rows
	require.Equal(t, []string{"", "0.950", "0.950"}, rows[1][4:7], "without a queue there is no HAProxy")
	require.Equal(t, []string{"1.100", "0.990", "1.100", "8"}, rows[2][4:], "in the second round HAProxy is the lower")
	require.Equal(t, []string{"", "", ""}, rows[3][4:7])
	_, err := queuedPictures(contenders)
	require.NoError(t, err)
}

// Connections ask for different keys at one time, and all keys get their turn.
func TestColdTrafficTakesAllKeysInTurn(t *testing.T) {
	seen := map[string]int{}
	for i := range coldKeys {
		seen[string(coldTraffic(5, i))]++
	}
	require.Len(t, seen, coldKeys)
	require.NotEqual(t, coldTraffic(0, 3), coldTraffic(1, 3))
	require.Contains(t, string(coldTraffic(0, 1)), "x-tenant: t7\r\nx-model: m7\r\n")
}

// Without a compiler that can, the row is left out, and the table says what to install.
func TestMissingRustIsSaid(t *testing.T) {
	_, err := buildRust("no such file.rs", t.TempDir()+"/out.wasm")
	require.ErrorIs(t, err, errNoRust)
	require.Contains(t, err.Error(), "libstd-rust-dev-wasm32")
}

// theModule is compiled once.
var theModule = sync.OnceValues(virtual.BuiltModule)

// The parts in virtual time run with the built module. Small ones, so that this is quick.
func TestSimulatedParts(t *testing.T) {
	module, err := theModule()
	require.NoError(t, err)
	s := simulated(module, 2, 64)
	s.Clients, s.WarmUp, s.Slice, s.Slices = 16, 20*time.Millisecond, 20*time.Millisecond, 2
	r, err := virtual.Run(s)
	require.NoError(t, err)
	row := workersPart([][]*virtual.Result{{r}, {r}}).Table.Rows[0]
	require.Equal(t, []string{"half used", "1"}, row[:2])
	require.Equal(t, "0", row[len(row)-1], "refused")
	require.NotZero(t, r.Slices[0].Ended)
	pictures, err := workersPictures([][]*virtual.Result{{r}, {r}})
	require.NoError(t, err)
	require.Len(t, pictures, 3)
	require.Len(t, storePart([]*virtual.Result{r}).Table.Rows, 1)
}

func TestRecordsGrow(t *testing.T) {
	module, err := theModule()
	require.NoError(t, err)
	bytes := make([][]int, len(growths))
	for i, g := range growths {
		for _, n := range recordSizes[:2] {
			size, err := g.recordBytes(module, n)
			require.NoError(t, err)
			bytes[i] = append(bytes[i], size)
		}
		require.Less(t, bytes[i][0], bytes[i][1], g.name)
	}
	p := recordsPart(bytes)
	require.Len(t, p.Table.Rows, len(growths))
	require.True(t, strings.HasPrefix(p.Table.Rows[0][0], "tenants"))
	_, err = recordsPictures(bytes)
	require.NoError(t, err)
}

func TestDocumentHasAPlaceForEachPart(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	document := filepath.Join(t.TempDir(), "performance.md")
	require.NoError(t, os.WriteFile(document, text, 0o600))
	for _, p := range parts {
		found := report.Part{Name: p.name, Lead: "lead of " + p.name, Table: report.Table{Header: []string{"a"}}}
		require.NoError(t, found.Write(document, "origin"))
	}
	require.ErrorContains(t, run(options{only: "nothing", rounds: 1, requests: 1, connections: 1, workers: 1, sample: 1}),
		`-only "nothing": want one of cost, queued, store, workers, records`)
}

package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

const (
	counter   = int(wasmtest.Counter)
	gauge     = int(wasmtest.Gauge)
	histogram = int(wasmtest.Histogram)
)

func TestMetrics_OneNameIsOneMetricForAllWorkersAndOutlivesThem(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	for i := range 2 {
		as(s, plugin, i, func(p *puppet) {
			id := p.must(opDefine, counter, "c").N
			p.must(opIncrement, id, 2)
			require.EqualValues(t, 2*(i+1), p.must(opMetric, id).N)
		})
	}
	s.Worker(0).Kill()
	require.EqualValues(t, 4, s.Counter("c"))
}

func TestMetrics_CountersOnlyGrow(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) {
		id := p.must(opDefine, counter, "c").N
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opIncrement, id, 0).Status)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opIncrement, id, -1).Status)
		p.must(opRecord, id, 5)
		p.must(opRecord, id, 5)
	})
	require.EqualValues(t, 10, s.Counter("c"), "recording a counter adds")
}

func TestMetrics_AGaugeBelowZeroWrapsAndIsAViolation(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) {
		id := p.must(opDefine, gauge, "g").N
		p.must(opRecord, id, 7)
		p.must(opIncrement, id, -7)
		require.Empty(t, s.Violations())
		p.must(opIncrement, id, -1)
		require.EqualValues(t, uint64(1<<64-1), p.must(opMetric, id).N)
	})
	require.EqualValues(t, uint64(1<<64-1), s.Gauge("g"))
	require.Len(t, s.Violations(), 1)
	require.Equal(t, wasmtest.GaugeWrapped, s.Violations()[0].Kind)
	require.ErrorContains(t, s.Verify(), `gauge "g"`)
	s.ForgetViolations()
}

func TestMetrics_HistogramsKeepWhatWasRecorded(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) {
		id := p.must(opDefine, histogram, "h").N
		p.must(opRecord, id, 3)
		p.must(opRecord, id, 1)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opMetric, id).Status)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opIncrement, id, 1).Status)
	})
	require.Equal(t, []uint64{3, 1}, s.Histogram("h"))
}

func TestMetrics_IDsAreTheVMsOwn(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	as(s, plugin, 0, func(p *puppet) {
		a, b := p.must(opDefine, gauge, "g").N, p.must(opDefine, gauge, "g").N
		require.NotEqual(t, a, b, "each definition gives a new id")
		p.must(opRecord, a, 1)
		require.EqualValues(t, 1, p.must(opMetric, b).N, "of the same gauge")
		require.NotZero(t, a, "0 is no id")
	})
	as(s, plugin, 1, func(p *puppet) {
		id := p.must(opDefine, gauge, "other").N
		require.EqualValues(t, 0, p.must(opMetric, id).N)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opMetric, id+4).Status)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opDefine, 3, "x").Status)
	})
	require.Equal(t, []wasmtest.Metric{{Name: "g", Type: wasmtest.Gauge, Value: 1}, {Name: "other", Type: wasmtest.Gauge}},
		s.Metrics())
}

package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// as runs script once as the guest of that worker, in a stream of its own.
func as(s *stage, plugin *wasmtest.Plugin, worker int, script func(*puppet)) {
	s.t.Helper()
	before := s.scripts["request_headers"]
	s.do("request_headers", script)
	stream := plugin.Stream(worker)
	stream.RequestHeaders(wasmtest.RequestHeaders("GET", "/"), true)
	stream.Complete()
	s.scripts["request_headers"] = before
}

func TestSharedData_CompareAndSwapRules(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	var first uint64
	as(s, plugin, 0, func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.get("k").Status, "absent")
		require.Equal(t, wasmtest.StatusOk, p.set("k", "one", 0xffffffff), "any cas creates an absent key")
		a := p.get("k")
		require.Equal(t, "one", a.B)
		require.NotZero(t, a.N)
		first = a.N
	})
	as(s, plugin, 1, func(p *puppet) {
		require.Equal(t, first, p.get("k").N, "the other worker sees the same entry")
		require.Equal(t, wasmtest.StatusOk, p.set("k", "two", first))
		require.Equal(t, wasmtest.StatusCasMismatch, p.set("k", "late", first), "each set takes a new number")
		require.Equal(t, "two", p.get("k").B, "a mismatch changes nothing")
		require.Equal(t, wasmtest.StatusOk, p.set("k", "blind", 0), "0 overwrites blindly")
		require.Equal(t, "blind", p.get("k").B)
	})
}

func TestSharedData_OneCounterForAllKeys(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) {
		p.set("a", "", 0)
		p.set("b", "", 0)
		require.Equal(t, p.get("a").N+1, p.get("b").N)
		p.set("a", "", 0)
		require.Equal(t, p.get("b").N+1, p.get("a").N)
		require.Empty(t, p.get("a").B, "an empty value is a value")
	})
}

func TestSharedData_CounterWrapsAndSkipsZero(t *testing.T) {
	s, plugin := newStage(t)
	s.SharedData().SetNextCAS(0xffffffff)
	as(s, plugin, 0, func(p *puppet) {
		p.set("a", "", 0)
		p.set("b", "", 0)
		require.EqualValues(t, 0xffffffff, p.get("a").N)
		require.EqualValues(t, 1, p.get("b").N)
	})
}

func TestSharedData_TestCanReadReplaceEraseAndList(t *testing.T) {
	s, plugin := newStage(t)
	s.SharedData().Set("b", []byte("test's"))
	as(s, plugin, 0, func(p *puppet) {
		a := p.get("b")
		require.Equal(t, "test's", a.B)
		s.SharedData().Set("b", []byte("again"))
		require.Equal(t, wasmtest.StatusCasMismatch, p.set("b", "mine", a.N))
		p.set("a", "1", 0)
	})
	require.Equal(t, []string{"a", "b"}, s.SharedData().Keys())
	value, cas, ok := s.SharedData().Get("a")
	require.True(t, ok)
	require.NotZero(t, cas)
	value[0] = 'x'
	value, _, _ = s.SharedData().Get("a")
	require.Equal(t, "1", string(value), "Get gives a copy")
	s.SharedData().Delete("a")
	_, _, ok = s.SharedData().Get("a")
	require.False(t, ok)
	s.SharedData().Clear()
	require.Empty(t, s.SharedData().Keys())
}

func TestSharedData_SurvivesACrashAndDiesWithTheLastVM(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	s.SharedData().Set("k", []byte("v"))
	s.Worker(0).Kill()
	s.Worker(1).Kill()
	require.Equal(t, []string{"k"}, s.SharedData().Keys(), "the configuration still holds the VM's base")
	require.NoError(t, s.Worker(0).Reload())
	require.NoError(t, s.Worker(1).Reload())
	require.Equal(t, []string{"k"}, s.SharedData().Keys())

	stream := plugin.Stream(1)
	plugin.Retire()
	require.Equal(t, []string{"k"}, s.SharedData().Keys(), "a stream keeps its VM")
	stream.Complete()
	require.Empty(t, s.Worker(1).VMs())
	require.Empty(t, s.SharedData().Keys())
}

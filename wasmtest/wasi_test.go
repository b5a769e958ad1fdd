package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestWASI_StdoutAndStderrAreLogs(t *testing.T) {
	var heard []wasmtest.LogLine
	s, plugin := newStage(t, wasmtest.WithLog(func(l wasmtest.LogLine) { heard = append(heard, l) }))
	s.Advance(1e9)
	as(s, plugin, 0, func(p *puppet) {
		p.call(opPrint, "to stderr\n")
		p.must(opLog, 3, "a warning")
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opLog, 6, "no such level").Status)
		require.EqualValues(t, wasmtest.LogInfo, p.must(opLogLevel).N)
		s.SetLogLevel(wasmtest.LogDebug)
		require.EqualValues(t, wasmtest.LogDebug, p.must(opLogLevel).N)
	})
	require.Equal(t, []wasmtest.LogLine{
		{At: 1e9, Worker: "w0", Context: 2, Level: wasmtest.LogError, Message: "to stderr"},
		{At: 1e9, Worker: "w0", Context: 2, Level: wasmtest.LogWarn, Message: "a warning"},
	}, s.Logs())
	require.Equal(t, s.Logs(), heard)
	require.Equal(t, "1s w0 [warn] a warning", heard[1].String())
}

func TestWASI_AGuestThatSleepsIsTrapped(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) { p.call(opSleep, 1000000) })
	require.ErrorContains(t, s.Err(), "the guest sleeps")
	s.ForgetFailures()
}

func TestWASI_AGuestThatExitsIsTrapped(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) { p.call(opExit, 3) })
	require.ErrorContains(t, s.Err(), "exited with code 3")
	s.ForgetFailures()
}

func TestWASI_RandomHasTheRealHostsLimit(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) {
		require.Len(t, p.must(opRandom, 64<<10).B, 64<<10)
		require.EqualValues(t, wasmtest.ErrnoInval, p.call(opRandom, 64<<10+1).Status)
	})
}

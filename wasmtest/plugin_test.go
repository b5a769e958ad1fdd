package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestLoad_StartsMainThreadAndWorkersAfterTheCanary(t *testing.T) {
	s, _ := newStage(t, wasmtest.WithWorkers(2), wasmtest.WithMainThread(), wasmtest.WithCanary())
	require.Equal(t, []string{
		"canary context_create[1,0]", "canary vm_start[1,0]", "canary configure[1,7]",
		"main context_create[1,0]", "main vm_start[1,0]", "main configure[1,7]",
		"w0 context_create[1,0]", "w0 vm_start[1,0]", "w0 configure[1,7]",
		"w1 context_create[1,0]", "w1 vm_start[1,0]", "w1 configure[1,7]",
	}, s.calls)
	require.Equal(t, wasmtest.MainThread, s.Main().Index())
	require.Len(t, s.Workers(), 2)
}

func TestLoad_ASecondConfigurationIsANewRootInTheSameVM(t *testing.T) {
	s, first := newStage(t)
	s.calls = nil
	second := s.MustLoad(wasmtest.PluginConfig{Name: "second"})
	require.Equal(t, []string{"w0 context_create[2,0]", "w0 vm_start[2,0]", "w0 configure[2,0]"}, s.calls,
		"the real host calls vm_start for each root")
	require.Same(t, first.Root(0).VM(), second.Root(0).VM())
	require.Len(t, s.Worker(0).VMs(), 1)
	require.Equal(t, "second", second.Config().Name)
}

func TestLoad_OtherVMConfigurationOrCodeIsAnotherVMWithTheSameData(t *testing.T) {
	s, first := newStage(t)
	other := s.MustLoad(wasmtest.PluginConfig{Name: "puppet", VMConfiguration: []byte("x")})
	require.NotSame(t, first.Root(0).VM(), other.Root(0).VM())
	require.Len(t, s.Worker(0).VMs(), 2)
	as(s, first, 0, func(p *puppet) { p.set("k", "v", 0) })
	as(s, other, 0, func(p *puppet) { require.Equal(t, "v", p.get("k").B) })

	upgrade := s.MustLoad(wasmtest.PluginConfig{Module: turnstileModule, Configuration: []byte("1")})
	require.Len(t, s.Worker(0).VMs(), 3)
	upgrade.Stream(0).RequestHeaders(get, true)
	require.Contains(t, s.SharedData().Keys(), "turnstile/count")
}

func TestLoad_TheSameConfigurationAgainIsTheSameRootWithoutACall(t *testing.T) {
	s, plugin := newStage(t)
	stream := plugin.Stream(0)
	plugin.Retire() // lives on: it has a stream
	s.calls = nil
	again, err := s.Load(wasmtest.PluginConfig{Name: "puppet", Configuration: []byte("strings")})
	require.NoError(t, err)
	require.Same(t, plugin, again)
	require.Empty(t, s.calls)
	stream.ClientGone()
	require.NotNil(t, again.Root(0), "no longer retired")

	again.Retire()
	require.Nil(t, again.Root(0))
	s.calls = nil
	fresh := s.MustLoad(wasmtest.PluginConfig{Name: "puppet", Configuration: []byte("strings")})
	require.Equal(t, []string{"w0 context_create[1,0]", "w0 vm_start[1,0]", "w0 configure[1,7]"}, s.calls,
		"a new VM by now")
	require.NotNil(t, fresh.Root(0))
}

func TestLoad_RefusedByTheCanaryNoWorkerHearsOfIt(t *testing.T) {
	s, good := newStage(t, wasmtest.WithCanary())
	s.on("configure", func(*puppet) uint32 { return 0 })
	s.calls = nil
	bad := wasmtest.PluginConfig{Name: "bad"}
	_, err := s.Load(bad)
	require.ErrorIs(t, err, wasmtest.ErrRefused)
	require.ErrorContains(t, err, `plugin "bad" on canary`)
	require.Equal(t, []string{"canary context_create[1,0]", "canary vm_start[1,0]", "canary configure[1,0]"}, s.calls)
	require.NotNil(t, good.Root(0), "the running one stays")
	s.calls = nil
	_, err = s.Load(bad)
	require.ErrorIs(t, err, wasmtest.ErrRefused)
	require.Empty(t, s.calls, "the answer is remembered")
}

func TestLoad_RefusedByAWorkerItsStreamsFail(t *testing.T) {
	s := emptyStage(t)
	s.on("vm_start", func(*puppet) uint32 { return 0 })
	s.calls = nil
	p, err := s.Load(wasmtest.PluginConfig{Name: "bad"})
	require.ErrorIs(t, err, wasmtest.ErrRefused)
	require.NotContains(t, s.calls, "w0 configure[1,0]")
	stream := p.Stream(0)
	stream.RequestHeaders(get, true)
	require.Equal(t, 503, stream.LocalReply().Code)
	p.Retire()
	require.Empty(t, s.Worker(0).VMs())
}

func TestRetire_EndsRootsWithoutStreamsAtOnceAndTheOthersLater(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	stream := plugin.Stream(1)
	root := plugin.Root(1)
	require.Equal(t, 1, root.Streams())
	s.calls = nil
	plugin.Retire()
	require.Equal(t, []string{"w0 done[1]", "w0 delete[1]"}, s.calls)
	require.False(t, root.Gone())
	s.calls = nil
	stream.Complete()
	require.Equal(t, []string{"w1 context_create[2,1]", "w1 log[2]", "w1 done[2]", "w1 delete[2]", "w1 done[1]",
		"w1 delete[1]"},
		s.calls)
	require.True(t, root.Gone())
}

func TestRetire_ARootThatIsNotDoneWaitsForProxyDone(t *testing.T) {
	s, first := newStage(t)
	second := s.MustLoad(wasmtest.PluginConfig{Name: "second"})
	root := first.Root(0)
	s.on("done", func(p *puppet) uint32 {
		if p.ID() == root.ContextID() {
			return 0
		}
		return 1
	})
	s.calls = nil
	first.Retire()
	require.False(t, root.Gone())
	as(s, second, 0, func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opDone).Status, "it isn't the one that waits")
		p.must(opEffective, root.ContextID())
		p.must(opDone)
		require.False(t, root.Gone(), "not inside proxy_done")
	})
	require.True(t, root.Gone())
	require.Contains(t, s.calls, "w0 delete[1]")
}

func TestAnnounce_ReachesEachThreadWhenTheTestDeliversIt(t *testing.T) {
	s := emptyStage(t, wasmtest.WithWorkers(2), wasmtest.WithCanary())
	p, err := s.Announce(wasmtest.PluginConfig{})
	require.NoError(t, err)
	require.Nil(t, p.Root(0))
	require.Panics(t, func() { p.Stream(0) })
	pending := s.Pending()
	require.Len(t, pending, 2)
	require.Equal(t, wasmtest.Configure, pending[1].Kind)
	s.Deliver(pending[1])
	require.Nil(t, p.Root(0))
	require.NotNil(t, p.Root(1))
	s.Drain()
	require.NotNil(t, p.Root(0))

	s.on("configure", func(*puppet) uint32 { return 0 })
	_, err = s.Announce(wasmtest.PluginConfig{Name: "bad"})
	require.ErrorIs(t, err, wasmtest.ErrRefused)
}

func TestAnnounce_AWorkersRefusalShows(t *testing.T) {
	s := emptyStage(t)
	s.on("configure", func(*puppet) uint32 { return 0 })
	_, err := s.Announce(wasmtest.PluginConfig{})
	require.NoError(t, err)
	s.Drain()
	require.ErrorIs(t, s.Err(), wasmtest.ErrRefused)
	s.ForgetFailures()
}

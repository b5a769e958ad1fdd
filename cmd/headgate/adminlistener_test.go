package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPortThatSomebodyTakesMeanwhileIsReplaced(t *testing.T) {
	const lost = "error `cannot bind '127.0.0.1:10001': Address already in use`\n[error] [wasm] another line"
	plan := func(a adminListener) *runPlan {
		p := &runPlan{}
		p.admin, p.envoyAdmin = a, netip.MustParseAddrPort("127.0.0.1:9901")
		return p
	}
	p := plan(defaultAdmin())
	require.False(t, p.replaceLost("cannot bind '127.0.0.1:100012': Address already in use"))
	require.False(t, p.replaceLost("cannot bind '127.0.0.1:10000': Address already in use"))
	require.True(t, p.replaceLost(lost))
	require.Equal(t, "127.0.0.1:0", p.admin.String())
	require.False(t, p.replaceLost(lost), "once is enough")

	given, err := parseAdmin("127.0.0.1:10001")
	require.NoError(t, err)
	require.False(t, plan(given).replaceLost(lost), "whoever asks for it is told that it is taken")
	off, err := parseAdmin("off")
	require.NoError(t, err)
	require.False(t, plan(off).replaceLost(lost))

	require.True(t, p.replaceLost("cannot bind '127.0.0.1:9901': Address already in use"))
	require.True(t, p.envoyAdmin.IsValid())
	require.NotEqual(t, uint16(9901), p.envoyAdmin.Port())
}

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two gateways that start at once both find the default address free, and one of them gets it.
func TestTheDefaultAdminAddressCanBeLost(t *testing.T) {
	const log = "error `cannot bind '127.0.0.1:10001': Address already in use`"
	a := defaultAdmin()
	require.True(t, a.isLost(log))
	require.False(t, a.isLost("cannot bind '127.0.0.1:100012': Address already in use"))
	require.False(t, a.isLost("cannot bind '127.0.0.1:10000': Address already in use"))
	a.makeWay()
	require.Equal(t, "127.0.0.1:0", a.String())
	require.False(t, a.isLost(log), "once is enough")
	given, err := parseAdmin("127.0.0.1:10001")
	require.NoError(t, err)
	require.False(t, given.isLost(log), "whoever asks for it is told that it is taken")
	off, err := parseAdmin("off")
	require.NoError(t, err)
	require.False(t, off.isLost(log))
}

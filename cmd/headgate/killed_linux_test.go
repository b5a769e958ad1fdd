package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunTakesEnvoyWithItWhenKilled(t *testing.T) {
	h := runGateway(t, nil, "--sample")
	require.NoError(t, h.cmd.Process.Kill())
	h.requireUnreachable()
}

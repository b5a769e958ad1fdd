package envoy_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// The file names the module relative to the repository's root, where people are told to start Envoy.
func TestEnvoyTakesTheBootstrapAsItIs(t *testing.T) {
	_, err := rig.WasmPath()
	require.NoError(t, err)
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	root, err := rig.RepositoryRoot()
	require.NoError(t, err)
	validate := exec.Command(binary, "--mode", "validate", "-c", "envoy/envoy.yaml")
	validate.Dir = root
	said, err := validate.CombinedOutput()
	require.NoError(t, err, "%s", said)
}

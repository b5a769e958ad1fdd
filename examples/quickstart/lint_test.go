package quickstart

import (
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/stretchr/testify/require"
)

// The library is the one that docker compose reads its files with. It checks them against the specification's schema.
func TestComposeFileIsValid(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"compose.yaml"}, cli.WithName("quickstart"), cli.WithConsistency(true))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"gateway", "model"}, project.ServiceNames())
}

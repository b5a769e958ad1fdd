package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// The requests go on when the access log can't be written: to a pipe that nobody reads, or to a full disk.
func TestRunSaysThatItsAccessLogIsLost(t *testing.T) {
	reader, closedPipe, err := os.Pipe()
	require.NoError(t, err)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	for name, out := range map[string]*os.File{"a closed pipe": closedPipe, "a full disk": full} {
		h := runGatewayTo(t, out, nil, "--sample", "--access-log")
		reader.Close()
		rig.Eventually(t, endWithin, name+" is told", func() bool {
			require.Equal(t, http.StatusOK, h.mustRequest("GET", "/v1/models", "", 0, 0, nil).StatusCode)
			return strings.Contains(h.errs.String(), "headgate: warning: lines of the access log are lost")
		})
		out.Close()
	}
}

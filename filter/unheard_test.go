package filter_test

import (
	"testing"

	"github.com/headgate/headgate/wasmtest"
)

// gRPC needs HTTP/2. A provider without it ends the connection, as one that fails does. An answer of any kind shows that
// it has HTTP/2.
func TestAResetOfGRPCIsNoFailureBeforeAnAnswer(t *testing.T) {
	for name, details := range map[string]string{
		"an upstream's HTTP/1.1":  "upstream_reset_before_response_started{protocol_error}",
		"an upstream that closes": "upstream_reset_before_response_started{connection_termination}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				what, contentType string
				answered          bool
				want              blame
			}{
				{"nothing was answered", "application/grpc", false, nobodys},
				{"a call was answered", "application/grpc", true, providers},
				{"not gRPC", "application/json", false, providers},
			} {
				t.Run(c.what, func(t *testing.T) {
					g := start(t, 1, config(pool("model", 2, "hold", object{"cancel": "1m"})))
					if c.answered {
						answer(200)(g.send(0, "x-model", "m", "content-type", c.contentType))
					}
					s := g.send(0, "x-model", "m", "content-type", c.contentType)
					status := 200 // as Envoy answers gRPC
					if c.contentType == "application/json" {
						status = 503
					}
					connectedTo(hostReply(status, details))(s)
					g.requireBlame(c.want)
				})
			}
		})
	}
}

func TestAResetOfAGRPCTryIsNoFailureBeforeAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		earlier ending // of another try; nil: there is none
		want    blame
	}{
		"nothing was answered":      {nil, nobodys},
		"a try was answered":        {answer(200), providers},
		"a try was answered by 415": {answer(415), providers},
	} {
		t.Run(name, func(t *testing.T) {
			g := startStages(t, 1, twoPools(2, 2, "hold", object{"cancel": "1m"}))
			if c.earlier != nil {
				c.earlier(g.call(0, "a", "content-type", "application/grpc").try())
			}
			connectedTo((*wasmtest.Stream).UpstreamReset)(g.call(0, "a", "content-type", "application/grpc+proto").try())
			g.requireBlame(c.want)
		})
	}
}

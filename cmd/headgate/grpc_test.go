package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// The statuses of gRPC that Envoy and Headgate answer with.
const (
	grpcOK                = "0"
	grpcResourceExhausted = "8"
	grpcUnavailable       = "14"
)

// The call of Triton's that the default patterns govern.
const grpcInfer = "/inference.GRPCInferenceService/Infer"

// http2Client speaks HTTP/2 without TLS.
func http2Client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: startWithin}
}

// A grpcReply is what a gRPC client gets.
type grpcReply struct{ status, spoken string }

// callGRPC makes a gRPC call. The status is in the trailers, or in the headers where there is no message.
func (h *tool) callGRPC(client *http.Client, path string) (grpcReply, error) {
	reply, err := client.Post("http://"+h.printed(gatewayURL)+path, grpcType, strings.NewReader(grpcMessage("hello")))
	if err != nil {
		return grpcReply{}, err
	}
	defer reply.Body.Close()
	if _, err := io.Copy(io.Discard, reply.Body); err != nil {
		return grpcReply{}, err
	}
	status := reply.Trailer.Get("grpc-status") + reply.Header.Get("grpc-status")
	return grpcReply{status, reply.Header.Get("spoken")}, nil
}

// mustCallGRPC is callGRPC for a call that gets a reply.
func (h *tool) mustCallGRPC(client *http.Client, path string) grpcReply {
	h.t.Helper()
	reply, err := h.callGRPC(client, path)
	require.NoError(h.t, err)
	return reply
}

// answerEither answers gRPC and other requests. A header says which HTTP the request had.
func answerEither(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("spoken", r.Proto)
	if r.Header.Get("content-type") == grpcType {
		w.Header().Set("content-type", grpcType)
		w.Header().Set("trailer", "grpc-status")
		defer w.Header().Set("grpc-status", grpcOK)
		_, _ = io.WriteString(w, grpcMessage("hello"))
	}
}

// eitherServer speaks HTTP/1.1 and HTTP/2 without TLS.
func eitherServer(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func TestOnlyGRPCSpeaksHTTP2ToTheUpstream(t *testing.T) {
	tls := newAuthority(t)
	env := []string{"SSL_CERT_FILE=" + tls.bundle}
	for url, sets := range map[string][][]string{
		eitherServer(t, answerEither):                                        {{"--retry", "0"}, {"--retry-min-delay", "0", "--upstream-disable-keep-alives"}},
		fmt.Sprintf("https://localhost:%d", tls.serveEither(t, "localhost")): {nil},
	} {
		for _, flags := range sets {
			h := runGateway(t, env, append([]string{"--upstream", url}, flags...)...)
			client := http2Client(t)
			for _, path := range []string{grpcInfer, "/pkg.Model/Ungoverned"} {
				require.Equal(t, grpcReply{grpcOK, "HTTP/2.0"}, h.mustCallGRPC(client, path), "%s %s %v", url, path, flags)
			}
			for _, client := range []*http.Client{client, http.DefaultClient} {
				reply, err := client.Post("http://"+h.printed(gatewayURL)+"/v1/chat/completions", jsonType, strings.NewReader("{}"))
				require.NoError(t, err)
				reply.Body.Close()
				require.Equal(t, "HTTP/1.1", reply.Header.Get("spoken"), "%s %v", url, flags)
			}
			require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
		}
	}
}

// closingUpstream is an HTTP/1.1 server that closes a connection on which something else comes, without a word.
func closingUpstream(t *testing.T) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				buffer := make([]byte, 1<<16)
				for {
					n, err := connection.Read(buffer)
					if err != nil || !strings.HasPrefix(string(buffer[:n]), "POST ") {
						return
					}
					_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// Calls that the upstream can't take fail for their own clients only.
func TestGRPCToAnUpstreamWithoutHTTP2OpensNoBreaker(t *testing.T) {
	tls := newAuthority(t)
	plain, _ := recordingUpstream(t)
	for _, c := range []struct{ name, url, retry string }{
		{"it answers 400", plain, "2"},
		{"it answers 400, without retries", plain, "0"},
		{"it closes", closingUpstream(t), "2"},
		{"TLS", fmt.Sprintf("https://localhost:%d", tls.serve(t, "localhost")), "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := runGateway(t, []string{"SSL_CERT_FILE=" + tls.bundle}, "--upstream", c.url, "--retry", c.retry,
				"--concurrency", "1", "--release-cooldown", "0", "--cancel-cooldown", "0", "--cb-threshold", "2")
			client := http2Client(t)
			for range 5 {
				require.Equal(t, grpcReply{grpcUnavailable, ""}, h.mustCallGRPC(client, grpcInfer))
				reply := h.send("/v1/chat/completions", false)
				require.Equal(t, http.StatusOK, reply.StatusCode, reply.Header.Get("x-headgate-reason"))
			}
			rig.Eventually(t, endWithin, "all have ended", func() bool { return h.shows("route.inflight", 0) })
			require.NotRegexp(t, `(provider_failure|rejected_breaker|on_hold): [1-9]`, h.numbers())
			require.Equal(t, 10, h.count("route.admitted"), "gRPC is governed all the same")
			require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
		})
	}
}

// A gRPC upstream that fails opens the breaker for all, as others do.
func TestGRPCThatFailsOpensTheBreaker(t *testing.T) {
	url := eitherServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	h := runGateway(t, nil, "--upstream", url, "--cb-threshold", "2", "--cb-penalty", "0", "--failure-hold", "0")
	client := http2Client(t)
	for range 2 {
		require.NotEqual(t, grpcOK, h.mustCallGRPC(client, grpcInfer).status)
	}
	require.Equal(t, 2, h.count("upstream.provider_failure"), "nothing is sent twice")
	require.Equal(t, grpcUnavailable, h.mustCallGRPC(client, grpcInfer).status)
	require.Equal(t, 1, h.count("upstream.rejected_breaker"))
	require.Equal(t, "BREAKER_OPEN", h.send("/v1/chat/completions", false).Header.Get("x-headgate-reason"))
}

// Wherever the limit is, gRPC and the rest have it together, also after a change.
func TestGRPCAndOthersShareTheLimit(t *testing.T) {
	var running, peak atomic.Int32
	pairs := make(chan struct{})
	url := eitherServer(t, func(w http.ResponseWriter, r *http.Request) {
		defer running.Add(-1)
		for n, most := running.Add(1), peak.Load(); n > most && !peak.CompareAndSwap(most, n); {
			most = peak.Load()
		}
		select { // each waits for another one, so two run at once
		case pairs <- struct{}{}:
		case <-pairs:
		case <-r.Context().Done():
		}
		<-time.After(5 * time.Millisecond) // the model works
		answerEither(w, r)
	})
	perAttempt := writePlugin(t, "plugin.json",
		`{"pools": [{"name": "upstream", "per": "attempt", "limit": 2, "queue": 100, "max_wait": "60s"}]}`)
	for name, flags := range map[string][]string{
		"in both stages":       {"--concurrency", "2", "--release-cooldown", "0"},
		"in the stage request": {"--concurrency", "2", "--release-cooldown", "0", "--retry", "0"},
		"in the stage attempt": {"--config", perAttempt},
	} {
		t.Run(name, func(t *testing.T) {
			peak.Store(0)
			h := runGateway(t, nil, append([]string{"--upstream", url, "--workers", "2"}, flags...)...)
			var all sync.WaitGroup
			for i := range 20 {
				client := http2Client(t)
				all.Go(func() {
					if i%2 == 0 {
						if reply, err := h.callGRPC(client, grpcInfer); err != nil || reply.status != grpcOK {
							t.Errorf("gRPC: %v %v", reply, err)
						}
					} else if reply, err := h.post("/v1/chat/completions", false); err != nil || reply.StatusCode != http.StatusOK {
						t.Errorf("HTTP/1.1: %v %v", reply, err)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 2, peak.Load())
			require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
		})
	}
}

func TestAChangedFileGovernsGRPCToo(t *testing.T) {
	const pool = `{"pools": [{"name": "upstream", "per": "attempt", "limit": %d}]}`
	file := writePlugin(t, "plugin.json", fmt.Sprintf(pool, 1))
	h := runGateway(t, nil, "--upstream", eitherServer(t, answerEither), "--config", file)
	client := http2Client(t)
	require.Equal(t, grpcOK, h.mustCallGRPC(client, grpcInfer).status)
	replace(t, file, fmt.Sprintf(pool, 0))
	h.eventuallySays(t, "the new configuration runs\n")
	require.Equal(t, grpcResourceExhausted, h.mustCallGRPC(client, grpcInfer).status)
	require.Equal(t, http.StatusTooManyRequests, h.send("/v1/chat/completions", false).StatusCode)
}

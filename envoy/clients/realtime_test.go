package clients

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// The kinds of a WebSocket's frames, as in RFC 6455.
const (
	textFrame  = 1
	closeFrame = 8
)

// skipFrame reads a client's frame of less than 64 KiB and returns its kind.
func skipFrame(r io.Reader) (kind byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, err
	}
	length := int64(head[1] & 0x7f)
	if length == 126 {
		long := make([]byte, 2)
		if _, err := io.ReadFull(r, long); err != nil {
			return 0, err
		}
		length = int64(binary.BigEndian.Uint16(long))
	}
	const mask = 4
	_, err = io.CopyN(io.Discard, r, mask+length)
	return head[0] & 0xf, err
}

// realtimeServer opens a WebSocket for each request, and answers each message with the text hello.
func realtimeServer(t *testing.T) (port int) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, buffered, err := rig.AcceptSocket(w, r)
		if err != nil {
			return
		}
		defer connection.Close()
		const event = `{"type":"response.output_text.delta","delta":"hello"}`
		for {
			switch kind, err := skipFrame(buffered); {
			case err != nil:
				return
			case kind == closeFrame:
				connection.Write([]byte{0x80 | closeFrame, 0})
				return
			}
			connection.Write(append([]byte{0x80 | textFrame, byte(len(event))}, event...))
		}
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// A session of OpenAI's realtime client passes, and has a permit until it closes.
func TestFinding_C2_PythonRealtimeClient(t *testing.T) {
	python := get(t, "python")
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{
		Config: &rig.Config{Pools: []rig.Pool{{Name: "sessions", Limit: 1}},
			More: rig.Object{"routes": []string{"GET /realtime"}}},
		Manager:  rig.Object{"upgrade_configs": []rig.Object{{"upgrade_type": "websocket"}}},
		Clusters: []rig.Object{rig.Cluster("realtime", realtimeServer(t))},
		Routes:   func(string) []rig.Object { return []rig.Object{rig.Route("/", "realtime")} },
	})
	for range 2 {
		session := start(t, python, "realtime.py", env.URL())
		if !session.out.Scan() || session.out.Text() != "hello" {
			t.Fatalf("the client got %q, want the text hello\n%s", session.out.Text(), session.stderr.String())
		}
		env.CheckRefused(t, env.Do(t, rig.Call{Method: "GET", Path: "/v1/realtime"}), "sessions", rig.Rejected)
		if err := session.in.(io.Closer).Close(); err != nil {
			t.Fatal(err)
		}
		env.AwaitDrained(t, "sessions")
	}
}

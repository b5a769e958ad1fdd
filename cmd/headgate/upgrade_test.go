package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// socketKey is the client's key of a WebSocket handshake, as in RFC 6455.
const socketKey = "dGhlIHNhbXBsZSBub25jZQ=="

// socketUpstream is a model API that upgrades each request to a WebSocket and sends each message back.
func socketUpstream(t *testing.T) string {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("upgrade") != "websocket" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		connection, buffered, err := rig.AcceptSocket(w, r)
		if err != nil {
			return
		}
		defer connection.Close()
		for {
			message, err := readMessage(buffered)
			if err != nil {
				return
			}
			_, _ = connection.Write(append([]byte{0x81, byte(len(message))}, message...))
		}
	}))
	t.Cleanup(api.Close)
	return api.URL
}

// readMessage reads a frame of up to 125 bytes and takes its mask off, if it has one.
func readMessage(r io.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return nil, err
		}
	}
	message := make([]byte, head[1]&0x7f)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, err
	}
	for i := range message {
		message[i] ^= mask[i%4]
	}
	return message, nil
}

// openSocket opens a WebSocket through the gateway and exchanges a message on it.
func (h *tool) openSocket(path string) net.Conn {
	h.t.Helper()
	reply, connection := h.exchangeOpen("GET " + path + " HTTP/1.1\r\nhost: gateway\r\nconnection: Upgrade\r\n" +
		"upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: " + socketKey + "\r\n\r\n")
	require.Equal(h.t, http.StatusSwitchingProtocols, reply.StatusCode)
	require.Equal(h.t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", reply.Header.Get("sec-websocket-accept"))
	const text, mask = "hello", 0x01020304
	frame := binary.BigEndian.AppendUint32([]byte{0x81, 0x80 | byte(len(text))}, mask)
	for i := range text {
		frame = append(frame, text[i]^byte(i%4+1))
	}
	_, err := connection.Write(frame)
	require.NoError(h.t, err)
	message, err := readMessage(bufio.NewReader(connection))
	require.NoError(h.t, err)
	require.Equal(h.t, text, string(message))
	return connection
}

func TestFinding_C2_WebSocketsPass(t *testing.T) {
	h := runGateway(t, nil, "--upstream", socketUpstream(t), "--limit", "/realtime:1", "--queue", "0",
		"--release-cooldown", "0", "--cancel-cooldown", "0")
	status := func(path string) int {
		return h.exchange("GET " + path + " HTTP/1.1\r\nhost: gateway\r\n\r\n").StatusCode
	}
	h.openSocket("/v1/other") // ungoverned, and open until the end
	for range 2 {
		socket := h.openSocket("/v1/realtime?model=m")
		require.Equal(t, http.StatusTooManyRequests, status("/v1/realtime"), "the socket has the permit")
		require.NoError(t, socket.Close())
		rig.Eventually(t, endWithin, "the permit comes back when the socket closes", func() bool {
			return status("/v1/realtime") == http.StatusOK
		})
	}
}

func TestFinding_C3_HTTP10IsServed(t *testing.T) {
	url, requests := recordingUpstream(t)
	h := runGateway(t, nil, "--upstream", url)
	for _, head := range []string{
		"GET /v1/models HTTP/1.0\r\n", "GET /v1/models HTTP/1.0\r\nhost: gateway\r\n",
		"POST /v1/chat/completions HTTP/1.0\r\nhost: gateway\r\ncontent-length: 0\r\n",
	} {
		reply := h.exchange(head + "\r\n")
		require.Equal(t, http.StatusOK, reply.StatusCode, head)
		require.Equal(t, "{}", whole(t, reply.Body))
		<-requests
	}
}

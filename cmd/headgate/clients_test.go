package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// A clientCall is a call that a real client makes, whose answer has the text hello.
type clientCall struct {
	name     string // in envoy/clients/through_run.py
	target   string // what the upstream must receive
	kind     string // the answer's content type
	parts    []string
	governed bool // without --limit
}

const (
	jsonType    = "application/json"
	eventStream = "application/vnd.amazon.eventstream"
	grpcType    = "application/grpc"
	profileCall = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.claude/"
)

// clientCalls are the calls. A stream's answer has two parts: the texts hel and lo.
var clientCalls = []clientCall{
	{"openai_plain", "/v1/chat/completions", jsonType, []string{`{"id":"1","object":"chat.completion","created":1,"model":"m",` +
		`"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`}, true},
	{"openai_stream", "/v1/chat/completions", "text/event-stream",
		[]string{openaiChunk("hel"), openaiChunk("lo") + "data: [DONE]\n\n"}, true},
	{"openai_realtime", "/v1/realtime?model=m", "", []string{realtimeEvent("hel"), realtimeEvent("lo") + "\x88\x00"}, false},
	{"anthropic_plain", "/v1/messages", jsonType, []string{`{"id":"1","type":"message","role":"assistant","model":"m",` +
		`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},` +
		`"content":[{"type":"text","text":"hello"}]}`}, true},
	{"anthropic_stream", "/v1/messages", "text/event-stream",
		[]string{anthropicStart + anthropicDelta("hel"), anthropicDelta("lo") + anthropicStop}, true},
	{"ollama_plain", "/api/chat", jsonType, []string{ollamaChunk("hello", true)}, true},
	{"ollama_stream", "/api/chat", "application/x-ndjson", []string{ollamaChunk("hel", false), ollamaChunk("lo", true)}, true},
	{"bedrock_host", profileCall + "converse", jsonType, []string{`{"output":{"message":{"role":"assistant","content":` +
		`[{"text":"hello"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},` +
		`"metrics":{"latencyMs":1}}`}, true},
	{"bedrock_plain", profileCall + "invoke", jsonType, []string{`{"text":"hello"}`}, true},
	{"bedrock_stream", profileCall + "invoke-with-response-stream", eventStream,
		[]string{bedrockChunk("hel"), bedrockChunk("lo")}, true},
	{"bedrock_converse", profileCall + "converse-stream", eventStream,
		[]string{bedrockDelta("hel"), bedrockDelta("lo")}, true},
	{"grpc_plain", "/pkg.Model/Ask", grpcType, []string{grpcMessage("hello")}, false},
	{"grpc_stream", "/pkg.Model/Watch", grpcType, []string{grpcMessage("hel"), grpcMessage("lo")}, false},
	{"grpc_infer", "/pkg.Model/Infer", grpcType, []string{grpcMessage("hello")}, true},
}

func openaiChunk(text string) string {
	return fmt.Sprintf(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",`+
		`"choices":[{"index":0,"delta":{"content":%q}}]}`, text) + "\n\n"
}

// realtimeEvent is in a WebSocket's frame, as in RFC 6455.
func realtimeEvent(text string) string {
	event := fmt.Sprintf(`{"type":"response.output_text.delta","delta":%q}`, text)
	return string([]byte{0x81, byte(len(event))}) + event
}

const (
	anthropicStart = "event: message_start\n" +
		`data: {"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m",` +
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},"content":[]}}` + "\n\n" +
		"event: content_block_start\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n"
	anthropicStop = "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
)

func anthropicDelta(text string) string {
	return "event: content_block_delta\n" +
		fmt.Sprintf(`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text) + "\n\n"
}

func ollamaChunk(text string, done bool) string {
	return fmt.Sprintf(`{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":%q},"done":%t}`,
		text, done) + "\n"
}

func bedrockChunk(text string) string {
	return awsEvent("chunk", fmt.Sprintf(`{"bytes":%q}`, base64.StdEncoding.EncodeToString([]byte(text))))
}

func bedrockDelta(text string) string {
	return awsEvent("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"text":%q}}`, text))
}

// awsEvent is a message of an event stream of AWS: a prelude with its check sum, headers, the payload, a check sum.
func awsEvent(name, payload string) string {
	var headers []byte
	for _, h := range [][2]string{{":message-type", "event"}, {":event-type", name}, {":content-type", jsonType}} {
		const isText = 7
		headers = append(append(append(headers, byte(len(h[0]))), h[0]...), isText)
		headers = append(binary.BigEndian.AppendUint16(headers, uint16(len(h[1]))), h[1]...)
	}
	const around = 16 // two lengths, two check sums
	message := binary.BigEndian.AppendUint32(nil, uint32(around+len(headers)+len(payload)))
	message = binary.BigEndian.AppendUint32(message, uint32(len(headers)))
	message = binary.BigEndian.AppendUint32(message, crc32.ChecksumIEEE(message))
	message = append(append(message, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(message, crc32.ChecksumIEEE(message)))
}

func grpcMessage(text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)))) + text
}

// A clientRequest is a request as the upstream has received it.
type clientRequest struct {
	receivedRequest
	method, host string
	protocol     int // HTTP's major version
}

// A scriptedAPI is an upstream that gives a call its answer, and speaks HTTP/1.1 and HTTP/2.
type scriptedAPI struct {
	url      string
	call     atomic.Pointer[clientCall]
	requests chan clientRequest
	further  chan struct{} // lets the second part go
	end      <-chan struct{}
}

func newScriptedAPI(t *testing.T) *scriptedAPI {
	t.Helper()
	api := &scriptedAPI{requests: make(chan clientRequest, 100), further: make(chan struct{}), end: t.Context().Done()}
	server := httptest.NewUnstartedServer(api)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	api.url = server.URL
	return api
}

func (api *scriptedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := api.call.Load()
	if r.Header.Get("upgrade") == "websocket" {
		api.requests <- clientRequest{receivedRequest{r.RequestURI, r.Header, ""}, r.Method, r.Host, r.ProtoMajor}
		api.openSocket(w, r, call)
		return
	}
	body, _ := io.ReadAll(r.Body)
	api.requests <- clientRequest{receivedRequest{r.RequestURI, r.Header, string(body)}, r.Method, r.Host, r.ProtoMajor}
	w.Header().Set("content-type", call.kind)
	if call.kind == grpcType {
		w.Header().Set("trailer", "grpc-status")
		defer w.Header().Set("grpc-status", "0")
	}
	api.answer(call, w, func() { _ = http.NewResponseController(w).Flush() })
}

// answer writes the parts of a call's answer, each when it may go.
func (api *scriptedAPI) answer(call *clientCall, w io.Writer, flush func()) {
	for i, part := range call.parts {
		if i > 0 {
			select {
			case <-api.further:
			case <-api.end:
				return
			}
		}
		_, _ = io.WriteString(w, part)
		flush()
	}
}

// openSocket opens a WebSocket, and answers the client's first message.
func (api *scriptedAPI) openSocket(w http.ResponseWriter, r *http.Request, call *clientCall) {
	connection, buffered, err := rig.AcceptSocket(w, r)
	if err != nil {
		return
	}
	defer connection.Close()
	if _, err := buffered.ReadByte(); err != nil {
		return
	}
	api.answer(call, connection, func() {})
	_ = connection.(*net.TCPConn).CloseWrite() // the last part is a close frame
	_, _ = io.Copy(io.Discard, buffered)
}

// clients is a Python that makes calls with the real clients.
type clients struct {
	in     io.Writer
	lines  chan string
	stderr *output
}

// startClients starts it for the gateway and its upstream, at host and port.
func startClients(t *testing.T, gateway, upstream string) *clients {
	t.Helper()
	root, err := rig.RepositoryRoot()
	require.NoError(t, err)
	python, err := exec.Command(filepath.Join(root, "build", "get-clients"), "python").Output()
	require.NoError(t, err, "build/get-clients python")
	program := exec.Command(strings.TrimSpace(string(python)), filepath.Join(root, "envoy", "clients", "through_run.py"), gateway, upstream)
	program.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // whatever would send them elsewhere
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return strings.HasSuffix(name, "_PROXY") || slices.ContainsFunc([]string{"OPENAI_", "ANTHROPIC_", "OLLAMA_", "AWS_", "GRPC_"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	program.Env = append(program.Env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	c := &clients{lines: make(chan string), stderr: &output{}}
	program.Stderr = c.stderr
	in, err := program.StdinPipe()
	require.NoError(t, err)
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	c.in = in
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case c.lines <- scanner.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		in.Close()
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	return c
}

// begin has the client make a call.
func (c *clients) begin(t *testing.T, call clientCall) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, call.name)
	require.NoError(t, err, c.stderr)
}

// requireSays checks the next that the client says.
func (c *clients) requireSays(t *testing.T, want map[string]any) {
	t.Helper()
	select {
	case line := <-c.lines:
		got := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &got), "%q %s", line, c.stderr)
		require.Equal(t, want, got)
	case <-time.After(startWithin):
		t.Fatalf("the client says nothing for %v: %s", startWithin, c.stderr)
	}
}

// count returns a stat of Headgate's, 0 for one that is not there yet.
func (h *tool) count(stat string) int {
	h.t.Helper()
	found := regexp.MustCompile(`(?m)^wasmcustom\.headgate\.` + regexp.QuoteMeta(stat) + `: (\d+)$`).FindStringSubmatch(h.numbers())
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	require.NoError(h.t, err)
	return n
}

func TestClientsThroughRun(t *testing.T) {
	for name, flags := range map[string][]string{
		"with defaults":       nil,
		"with other patterns": {"--limit", "/pkg.Model/Ask", "--limit", "/pkg.Model/Watch", "--limit", "GET /realtime"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newScriptedAPI(t)
			h := runGateway(t, nil, append([]string{"--upstream", api.url}, flags...)...)
			c := startClients(t, h.printed(gatewayURL), strings.TrimPrefix(api.url, "http://"))
			for _, call := range clientCalls {
				if flags != nil {
					call.governed = !call.governed
				}
				if !t.Run(call.name, func(t *testing.T) { checkClientCall(t, h, api, c, call) }) {
					return // the client may still be in it
				}
			}
		})
	}
}

// A real client reads the status and the reason of a refusal.
func TestRefusedGRPCClientGetsAStatus(t *testing.T) {
	api := newScriptedAPI(t)
	h := runGateway(t, nil, "--upstream", api.url, "--limit", "/Ask:0")
	c := startClients(t, h.printed(gatewayURL), strings.TrimPrefix(api.url, "http://"))
	c.begin(t, clientCall{name: "grpc_plain"})
	c.requireSays(t, map[string]any{"error": `RESOURCE_EXHAUSTED: Headgate: pool "route" is closed`})
	require.Empty(t, api.requests)
}

// checkClientCall makes a call and checks what its both ends get, and that it is counted as governed or not.
func checkClientCall(t *testing.T, h *tool, api *scriptedAPI, c *clients, call clientCall) {
	t.Helper()
	stats := map[string]int{"route.admitted": 0, "upstream.admitted": 0, "ungoverned": 0}
	for stat := range stats {
		stats[stat] = h.count(stat)
	}
	api.call.Store(&call)
	c.begin(t, call)
	if len(call.parts) > 1 {
		c.requireSays(t, map[string]any{"text": "hel"})
		api.further <- struct{}{}
		c.requireSays(t, map[string]any{"text": "lo"})
	} else {
		c.requireSays(t, map[string]any{"text": "hello"})
	}
	c.requireSays(t, map[string]any{"end": true})

	got := <-api.requests
	require.Equal(t, call.target, got.target)
	require.Equal(t, call.kind == grpcType, got.protocol == 2, "HTTP/%d", got.protocol)
	switch {
	case call.name == "bedrock_host":
		requireSigned(t, got, got.host)
	case strings.HasPrefix(call.name, "bedrock_"):
		requireSigned(t, got, h.printed(gatewayURL))
	}
	for stat, before := range stats {
		want := before
		if call.governed == strings.HasSuffix(stat, ".admitted") {
			want++
		}
		rig.Eventually(t, endWithin, fmt.Sprintf("%s is %d", stat, want), func() bool { return h.count(stat) == want })
	}
	require.Empty(t, api.requests, "it was made once")
}

var signature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=id/([^,]+), SignedHeaders=([^,]+), Signature=(\w+)$`)

// requireSigned checks AWS's signature (version 4) of a request that was sent to the host: what it covers is unchanged.
func requireSigned(t *testing.T, r clientRequest, host string) {
	t.Helper()
	parts := signature.FindStringSubmatch(r.header.Get("authorization"))
	require.NotNil(t, parts, r.header)
	scope, names, want := parts[1], parts[2], parts[3]
	r.header.Set("host", host)
	canonical := r.method + "\n" + strings.ReplaceAll(r.target, "%", "%25") + "\n\n"
	for name := range strings.SplitSeq(names, ";") {
		canonical += name + ":" + r.header.Get(name) + "\n"
	}
	canonical += "\n" + names + "\n" + hexSum(r.body)
	key := []byte("AWS4secret")
	for _, text := range append(strings.Split(scope, "/"),
		"AWS4-HMAC-SHA256\n"+r.header.Get("x-amz-date")+"\n"+scope+"\n"+hexSum(canonical)) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		key = mac.Sum(nil)
	}
	require.Equal(t, want, hex.EncodeToString(key), "the signature of\n%s", canonical)
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

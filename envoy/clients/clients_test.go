package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// An api is what one provider's clients and servers say to each other.
type api struct {
	client  string // as the drivers know it
	path    string
	plain   string   // a response whose text is "hello"
	events  []string // a stream of the texts "hel" and "lo", before its last event
	last    string
	refused string // the type of a refusal's error
}

var openai = api{
	client: "openai",
	path:   "/v1/chat/completions",
	plain: `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",` +
		`"message":{"role":"assistant","content":"hello"}}]}`,
	events:  []string{openaiChunk("hel"), openaiChunk("lo")},
	last:    "data: [DONE]",
	refused: "rate_limited",
}

func openaiChunk(text string) string {
	return fmt.Sprintf(`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",`+
		`"choices":[{"index":0,"delta":{"content":%q}}]}`, text)
}

var anthropic = api{
	client: "anthropic",
	path:   "/v1/messages",
	plain: `{"id":"1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","stop_sequence":null,` +
		`"usage":{"input_tokens":1,"output_tokens":1},"content":[{"type":"text","text":"hello"}]}`,
	events: []string{
		"event: message_start\n" +
			`data: {"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m",` +
			`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},"content":[]}}`,
		"event: content_block_start\n" +
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		anthropicDelta("hel"), anthropicDelta("lo"),
	},
	last:    "event: message_stop\n" + `data: {"type":"message_stop"}`,
	refused: "rate_limit_error",
}

func anthropicDelta(text string) string {
	return "event: content_block_delta\n" +
		fmt.Sprintf(`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text)
}

func (a api) answers(id string) rig.Script { return rig.Script{ID: id, Body: a.plain} }

func (a api) streams(id string) rig.Script {
	return rig.Script{ID: id, Events: append(slices.Clone(a.events), a.last)}
}

// hangs streams everything but the last event.
func (a api) hangs(id string) rig.Script { return rig.Script{ID: id, Events: a.events, Hang: true} }

// hold takes the model's permit until the gate named like the id opens.
func (a api) hold(t *testing.T, env *rig.Env, id string) *rig.Pending {
	return env.Hold(t, id, rig.Call{Path: a.path, NoModel: true, Body: []byte(`{"model":"m"}`)})
}

// gateway has one permit for each model, which is where these clients put it: in the body.
func gateway(t *testing.T) *rig.Env {
	t.Helper()
	return rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{
		Pools: []rig.Pool{{Name: "model", Key: []string{"model"}, Limit: 1}},
		More: rig.Object{"routes": []string{"POST /chat/completions", "POST /messages"},
			"identity": rig.Object{"model": []rig.Object{{"json_body": "model"}}}},
	}})
}

// A driver is a running program that makes calls with the real clients.
type driver struct {
	in     io.Writer
	out    *bufio.Scanner
	stderr strings.Builder
}

func start(t *testing.T, name string, args ...string) *driver {
	t.Helper()
	d := &driver{}
	program := exec.Command(name, args...)
	program.Stderr = &d.stderr
	program.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // whatever would send them elsewhere
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		return strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "ANTHROPIC_") ||
			strings.HasSuffix(name, "_PROXY")
	})
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		program.Process.Kill()
		program.Wait()
	})
	d.in, d.out = in, bufio.NewScanner(out)
	return d
}

// get runs build/get-clients.
func get(t *testing.T, which string) string {
	t.Helper()
	root, err := rig.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(root, "build", "get-clients"), which)
	var stderr strings.Builder
	command.Stderr = &stderr
	path, err := command.Output()
	if err != nil {
		t.Fatalf("build/get-clients %s: %v\n%s", which, err, stderr.String())
	}
	return strings.TrimSpace(string(path))
}

// An answer is what a client made of a call.
type answer struct {
	Texts      []string
	Error      string // the error's type, "" without one
	Status     int
	Body       map[string]any
	RetryAfter string
}

// begin starts a call; the answer comes later.
func (d *driver) begin(t *testing.T, a api, do string, retries int, script rig.Script) <-chan answer {
	t.Helper()
	name, value := script.Query()
	line, err := json.Marshal(map[string]any{"client": a.client, "do": do, "model": "m", "retries": retries,
		"query": map[string]string{name: value}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(d.in, "%s\n", line); err != nil {
		t.Fatalf("the client has ended: %v\n%s", err, d.stderr.String())
	}
	answers := make(chan answer, 1)
	go func() {
		defer close(answers)
		var got answer
		if d.out.Scan() && json.Unmarshal(d.out.Bytes(), &got) == nil {
			answers <- got
		}
	}()
	return answers
}

func (d *driver) call(t *testing.T, a api, do string, retries int, script rig.Script) answer {
	t.Helper()
	return d.await(t, d.begin(t, a, do, retries, script))
}

func (d *driver) await(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case got, ok := <-answers:
		if !ok {
			t.Fatalf("the client ended without an answer:\n%s", d.stderr.String())
		}
		return got
	case <-time.After(rig.Patience):
		t.Fatalf("no answer from the client within %v", rig.Patience)
	}
	return answer{}
}

// checkClient takes a client through all that its users do.
func checkClient(t *testing.T, env *rig.Env, d *driver, a api) {
	t.Helper()
	for what, script := range map[string]rig.Script{"plain": a.answers("plain"), "stream": a.streams("stream")} {
		if got := d.call(t, a, what, 0, script); strings.Join(got.Texts, "") != "hello" || got.Error != "" {
			t.Errorf("%s: got %+v, want the text hello", what, got)
		}
	}
	checkRefused(t, env, d, a)
	checkRetried(t, env, d, a)
	checkCancelled(t, env, d, a)
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, rig.Call{Path: a.path, NoModel: true, Body: []byte(`{"model":"m"}`)})
}

// checkRefused: a full model is the client's rate limit error, with our code in it.
func checkRefused(t *testing.T, env *rig.Env, d *driver, a api) {
	t.Helper()
	held := a.hold(t, env, "held")
	for _, what := range []string{"plain", "stream"} {
		got := d.call(t, a, what, 0, a.answers("refused"))
		problem := got.Body
		// One client hands out the whole body, the other one the error in it.
		if inner, ok := problem["error"].(map[string]any); ok {
			problem = inner
		}
		seconds, err := strconv.Atoi(got.RetryAfter)
		message, _ := problem["message"].(string)
		if got.Error != "RateLimitError" || got.Status != 429 || problem["type"] != a.refused || err != nil || seconds < 1 ||
			!strings.HasPrefix(message, "Headgate: pool ") {
			t.Errorf("refused, %s: got %+v, want RateLimitError of type %s", what, got, a.refused)
		}
	}
	if env.Up.Saw("refused") {
		t.Error("a refused call reached the upstream")
	}
	env.Up.Open("held")
	held.Wait()
	env.AwaitDrained(t, "model")
}

// checkRetried: a client that may retry waits for as long as retry-after says, and then succeeds.
func checkRetried(t *testing.T, env *rig.Env, d *driver, a api) {
	t.Helper()
	held := a.hold(t, env, "busy")
	before := env.Pool(t, "model")["rejected_queue_full"]
	began := time.Now()
	answers := d.begin(t, a, "plain", 2, a.answers("retried"))
	rig.Await(t, "the client is refused", func() bool { return env.Pool(t, "model")["rejected_queue_full"] > before })
	env.Up.Open("busy")
	held.Wait()
	if got := d.await(t, answers); strings.Join(got.Texts, "") != "hello" {
		t.Errorf("retried: got %+v, want the text hello", got)
	}
	seen, _ := env.Up.Request("retried")
	if waited := seen.Start.Sub(began); waited < time.Second { // on its own it would wait half a second
		t.Errorf("the client came again after %v, retry-after is at least 1 s", waited)
	}
}

// checkCancelled: a client that leaves a stream half-way gives the permit back, while it lives on.
func checkCancelled(t *testing.T, env *rig.Env, d *driver, a api) {
	t.Helper()
	for i := range 3 {
		id := fmt.Sprintf("cancelled-%d", i)
		if got := d.call(t, a, "cancel", 0, a.hangs(id)); !slices.Equal(got.Texts, []string{"hel"}) {
			t.Fatalf("cancelled: got %+v, want the first text", got)
		}
		if seen := env.AwaitEnd(t, id); seen.Ending != rig.EndingCancelled {
			t.Errorf("the upstream's request ended as %s, want cancelled", seen.Ending)
		}
		env.AwaitDrained(t, "model")
	}
}

func TestPythonClients(t *testing.T) {
	python := get(t, "python")
	for _, a := range []api{openai, anthropic} {
		t.Run(a.client, func(t *testing.T) {
			env := gateway(t)
			checkClient(t, env, start(t, python, "client.py", env.URL()), a)
		})
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	sampleModel = "sample-1"
	samplePace  = 50 * time.Millisecond // a word each: a model that speaks about as fast as people read
	sampleBody  = 1 << 20               // the longest request body it reads
)

const sampleSpeech = `This is the sample model, and it has let you in because Headgate gave your request a permit. I speak at about ` +
	`twenty words a second, so that you can watch what a long stream does to everyone else. While I am talking to you and to ` +
	`one other, nobody else gets through: the next three requests wait in the queue, first come, first served, and whoever ` +
	`comes after them is told 429 at once, with a reason and a time to come back. Your permit is held until my last word. Leave ` +
	`early, and it goes to the next in line at that very moment. Send eight requests together and see for yourself. That is all I have to say.`

// A sampleAPI is a model API in the style of OpenAI's, for trying Headgate without one.
type sampleAPI struct {
	listener net.Listener
	server   *http.Server
}

// startSample serves on a free loopback port.
func startSample() (*sampleAPI, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("can't start the sample model API: %w", err)
	}
	api := &sampleAPI{listener, &http.Server{Handler: sampleHandler(samplePace), ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = api.server.Serve(listener) }() // ends in stop
	return api, nil
}

func (a *sampleAPI) upstream() *upstream {
	return &upstream{host: "127.0.0.1", port: uint16(a.listener.Addr().(*net.TCPAddr).Port)}
}

// stop cuts the replies that still run.
func (a *sampleAPI) stop() { _ = a.server.Close() }

func sampleHandler(pace time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { complete(w, r, pace) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		model := map[string]any{"id": sampleModel, "object": "model", "created": 0, "owned_by": "headgate"}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{model}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Sprintf("unknown request: %s %s (want POST /v1/chat/completions or GET /v1/models)", r.Method, r.URL.Path))
	})
	return mux
}

// A completionRequest is what the sample understands of a chat completion request.
type completionRequest struct {
	Model         string            `json:"model"`
	Messages      []json.RawMessage `json:"messages"`
	Stream        bool              `json:"stream"`
	MaxTokens     int               `json:"max_tokens"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func complete(w http.ResponseWriter, r *http.Request, pace time.Duration) {
	var request completionRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, sampleBody)).Decode(&request); err != nil {
		writeError(w, http.StatusBadRequest, "the body is not a JSON request: "+err.Error())
		return
	}
	if request.Model == "" || len(request.Messages) == 0 {
		writeError(w, http.StatusBadRequest, "model and messages are required")
		return
	}
	c := completion{request: request, words: strings.SplitAfter(sampleSpeech, " "), finish: "stop", pace: pace}
	if request.MaxTokens > 0 && request.MaxTokens < len(c.words) {
		c.words, c.finish = c.words[:request.MaxTokens], "length"
	}
	if request.Stream {
		c.stream(r.Context(), w)
	} else {
		c.whole(r.Context(), w)
	}
}

// A completion is one reply being spoken.
type completion struct {
	request completionRequest
	words   []string
	finish  string // why it ends: stop or length
	pace    time.Duration
}

// speak hands one word after another to each at the completion's pace; false: the client left.
func (c *completion) speak(ctx context.Context, each func(word string)) bool {
	ticker := time.NewTicker(c.pace)
	defer ticker.Stop()
	for _, word := range c.words {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
			each(word)
		}
	}
	return true
}

// whole replies once everything is spoken.
func (c *completion) whole(ctx context.Context, w http.ResponseWriter) {
	if !c.speak(ctx, func(string) {}) {
		return
	}
	message := map[string]string{"role": "assistant", "content": strings.Join(c.words, "")}
	reply := c.object("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": c.finish})
	reply["usage"] = c.usage()
	writeJSON(w, http.StatusOK, reply)
}

// stream replies with an event for each word.
func (c *completion) stream(ctx context.Context, w http.ResponseWriter) {
	w.Header().Set("content-type", "text/event-stream")
	w.Header().Set("cache-control", "no-cache")
	c.chunk(w, map[string]string{"role": "assistant", "content": ""}, nil)
	if !c.speak(ctx, func(word string) { c.chunk(w, map[string]string{"content": word}, nil) }) {
		return
	}
	c.chunk(w, map[string]string{}, c.finish)
	if c.request.StreamOptions.IncludeUsage {
		last := c.object("chat.completion.chunk")
		last["usage"] = c.usage()
		writeEvent(w, last)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (c *completion) chunk(w http.ResponseWriter, delta map[string]string, finish any) {
	writeEvent(w, c.object("chat.completion.chunk", map[string]any{"index": 0, "delta": delta, "finish_reason": finish}))
}

func (c *completion) object(kind string, choices ...any) map[string]any {
	if choices == nil {
		choices = []any{}
	}
	return map[string]any{"id": "chatcmpl-sample", "object": kind, "created": time.Now().Unix(), "model": c.request.Model, "choices": choices}
}

// usage counts a message and a word as a token each.
func (c *completion) usage() map[string]int {
	asked, spoken := len(c.request.Messages), len(c.words)
	return map[string]int{"prompt_tokens": asked, "completion_tokens": spoken, "total_tokens": asked + spoken}
}

// Failed writes in what follows mean that the client left, which its context tells.

func writeEvent(w http.ResponseWriter, event any) {
	text, _ := json.Marshal(event) // maps of strings and numbers
	fmt.Fprintf(w, "data: %s\n\n", text)
	_ = http.NewResponseController(w).Flush()
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func writeError(w http.ResponseWriter, status int, message string) {
	failure := map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}
	writeJSON(w, status, map[string]any{"error": failure})
}

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
	samplePace  = 50 * time.Millisecond // the time for one word: about as fast as people read
	sampleBody  = 1 << 20               // the length of the longest request body that it reads
)

const sampleSpeech = `This is the sample model, and Headgate has given your request a permit. I speak about twenty ` +
	`words a second, so that you can watch what a long stream does to other requests. Unless you have set other ` +
	`limits, two requests run at once: yours and one more. The next three requests wait in the queue, first come, ` +
	`first served. A request that comes after those is answered with 429 at once, together with a reason and a time ` +
	`to come back. Your request keeps its permit until my last word. If you leave early, the next request in the ` +
	`queue gets the permit a moment later. Send eight requests together and see for yourself. That is all I have to ` +
	`say.`

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

// stop ends the sample and the replies that still run.
func (a *sampleAPI) stop() { _ = a.server.Close() }

func sampleHandler(pace time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		answerCompletion(w, r, pace)
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		model := map[string]any{"id": sampleModel, "object": "model", "created": 0, "owned_by": "headgate"}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{model}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		const known = "want POST /v1/chat/completions or GET /v1/models"
		writeError(w, http.StatusNotFound, fmt.Sprintf("unknown request: %s %s (%s)", r.Method, r.URL.Path, known))
	})
	return mux
}

// A completionRequest has the fields of a chat completion request that the sample uses.
type completionRequest struct {
	Model         string            `json:"model"`
	Messages      []json.RawMessage `json:"messages"`
	Stream        bool              `json:"stream"`
	MaxTokens     int               `json:"max_tokens"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func answerCompletion(w http.ResponseWriter, r *http.Request, pace time.Duration) {
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
		c.replyInEvents(r.Context(), w)
	} else {
		c.replyAtOnce(r.Context(), w)
	}
}

// A completion is one reply while the sample speaks it.
type completion struct {
	request completionRequest
	words   []string
	finish  string        // the reason for the end: stop or length
	pace    time.Duration // the time for one word
}

// speak calls each with one word after another, at the completion's pace. It returns false if the client left.
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

// replyAtOnce sends the whole reply when the last word is spoken.
func (c *completion) replyAtOnce(ctx context.Context, w http.ResponseWriter) {
	if !c.speak(ctx, func(string) {}) {
		return
	}
	message := map[string]string{"role": "assistant", "content": strings.Join(c.words, "")}
	reply := c.object("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": c.finish})
	reply["usage"] = c.usage()
	writeJSON(w, http.StatusOK, reply)
}

// replyInEvents sends an event for each word.
func (c *completion) replyInEvents(ctx context.Context, w http.ResponseWriter) {
	w.Header().Set("content-type", "text/event-stream")
	w.Header().Set("cache-control", "no-cache")
	c.writeChunk(w, map[string]string{"role": "assistant", "content": ""}, nil)
	if !c.speak(ctx, func(word string) { c.writeChunk(w, map[string]string{"content": word}, nil) }) {
		return
	}
	c.writeChunk(w, map[string]string{}, c.finish)
	if c.request.StreamOptions.IncludeUsage {
		last := c.object("chat.completion.chunk")
		last["usage"] = c.usage()
		writeEvent(w, last)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// writeChunk sends an event with the next part of the message.
func (c *completion) writeChunk(w http.ResponseWriter, delta map[string]string, finish any) {
	writeEvent(w, c.object("chat.completion.chunk", map[string]any{"index": 0, "delta": delta, "finish_reason": finish}))
}

// object is the part that every reply and every event has.
func (c *completion) object(kind string, choices ...any) map[string]any {
	if choices == nil {
		choices = []any{}
	}
	return map[string]any{
		"id": "chatcmpl-sample", "object": kind, "created": time.Now().Unix(),
		"model": c.request.Model, "choices": choices,
	}
}

// usage counts each message and each word as one token.
func (c *completion) usage() map[string]int {
	asked, spoken := len(c.request.Messages), len(c.words)
	return map[string]int{"prompt_tokens": asked, "completion_tokens": spoken, "total_tokens": asked + spoken}
}

// writeEvent sends one event. A write fails only when the client has left, which the request's context says too.
func writeEvent(w http.ResponseWriter, event any) {
	text, _ := json.Marshal(event) // an event is made of maps, strings and numbers, which always have a JSON form
	fmt.Fprintf(w, "data: %s\n\n", text)
	_ = http.NewResponseController(w).Flush()
}

// writeJSON sends a reply. A write fails only when the client has left.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func writeError(w http.ResponseWriter, status int, message string) {
	failure := map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}
	writeJSON(w, status, map[string]any{"error": failure})
}

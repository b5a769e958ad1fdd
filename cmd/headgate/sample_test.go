package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func postSample(t *testing.T, path, body string) *http.Response {
	t.Helper()
	server := httptest.NewServer(sampleHandler(time.Microsecond))
	t.Cleanup(server.Close)
	reply, err := http.Post(server.URL+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	t.Cleanup(func() { reply.Body.Close() })
	return reply
}

// A sampleReply has the fields of a whole reply, or of one event, that the tests read.
type sampleReply struct {
	Object  string
	Model   string
	Choices []struct {
		Message      struct{ Role, Content string }
		Delta        struct{ Role, Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage map[string]int
	Error map[string]any
}

func TestSampleStreamsEventsInOpenAIForm(t *testing.T) {
	reply := postSample(t, "/v1/chat/completions",
		`{"model":"m","stream":true,"messages":[{}],"max_tokens":3,"stream_options":{"include_usage":true}}`)
	require.Equal(t, "text/event-stream", reply.Header.Get("content-type"))
	body, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	events := strings.Split(strings.TrimSuffix(string(body), "\n\n"), "\n\n")
	require.Equal(t, "data: [DONE]", events[len(events)-1])

	var spoken, finish string
	var last sampleReply
	for _, event := range events[:len(events)-1] {
		last = sampleReply{}
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &last), event)
		require.Equal(t, "chat.completion.chunk", last.Object)
		for _, choice := range last.Choices {
			spoken, finish = spoken+choice.Delta.Content, choice.FinishReason
		}
	}
	require.Equal(t, "This is the ", spoken)
	require.Equal(t, "length", finish)
	require.Equal(t, map[string]int{"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}, last.Usage)
}

func TestSampleRepliesAtOnceWithoutStream(t *testing.T) {
	reply := postSample(t, "/v1/chat/completions", `{"model":"m","messages":[{}]}`)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	var whole sampleReply
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&whole))
	require.Equal(t, "chat.completion", whole.Object)
	require.Equal(t, "m", whole.Model)
	require.Equal(t, sampleSpeech, whole.Choices[0].Message.Content)
	require.Equal(t, "stop", whole.Choices[0].FinishReason)
	require.Equal(t, len(strings.Fields(sampleSpeech)), whole.Usage["completion_tokens"])
}

func TestSampleRefusesInOpenAIForm(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":`:                     "the body is not a JSON request",
		`{"model":"m"}`:                 "model and messages are required",
		`{"messages":[{}]}`:             "model and messages are required",
		`{"model":"m","messages":"hi"}`: "the body is not a JSON request",
	} {
		requireSampleError(t, postSample(t, "/v1/chat/completions", body), http.StatusBadRequest, want)
	}
	requireSampleError(t, postSample(t, "/v1/nothing", "{}"), http.StatusNotFound, "unknown request: POST /v1/nothing")
}

func requireSampleError(t *testing.T, reply *http.Response, status int, message string) {
	t.Helper()
	require.Equal(t, status, reply.StatusCode)
	var body sampleReply
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&body))
	require.Contains(t, body.Error["message"], message)
	require.Equal(t, "invalid_request_error", body.Error["type"])
}

func TestSampleSpeaksForSecondsAtAHumanPace(t *testing.T) {
	takes := samplePace * time.Duration(len(strings.Fields(sampleSpeech)))
	require.InDelta(t, 7, takes.Seconds(), 3)
}

// closeOnReturn closes a channel when the handler has returned.
func closeOnReturn(handler http.Handler, returned chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		close(returned)
	})
}

func TestSampleStopsWhenTheClientLeaves(t *testing.T) {
	for _, stream := range []bool{true, false} {
		returned := make(chan struct{})
		server := httptest.NewServer(closeOnReturn(sampleHandler(time.Hour), returned)) // the first word never comes
		ctx, leave := context.WithCancel(context.Background())
		body := strings.NewReader(chatRequest("hi", stream))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", body)
		require.NoError(t, err)
		if stream {
			reply, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			_, err = bufio.NewReader(reply.Body).ReadString('\n')
			require.NoError(t, err)
			leave()
			reply.Body.Close()
		} else {
			time.AfterFunc(10*time.Millisecond, leave)
			_, err := http.DefaultClient.Do(request)
			require.ErrorIs(t, err, context.Canceled)
		}
		select {
		case <-returned:
		case <-time.After(10 * time.Second):
			t.Fatalf("stream %t: the sample still speaks 10 s after its client left", stream)
		}
		leave()
		server.Close()
	}
}

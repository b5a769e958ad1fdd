package request_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission/request"
)

func TestFinding_D2_APIOfAPath(t *testing.T) {
	for path, want := range map[string]request.API{
		"":                                    request.APIOther,
		"/":                                   request.APIOther,
		"/v1/chat/completions":                request.APIOther,
		"/v1/embeddings?a=:b":                 request.APIOther,
		"/v1/messages":                        request.APIAnthropic,
		"/v1/messages?beta=true":              request.APIAnthropic,
		"/v1/messages/":                       request.APIAnthropic,
		"/anthropic/v1/messages/count_tokens": request.APIAnthropic,
		"/v1/messages/batches":                request.APIAnthropic,
		"/v1/threads/t/messages/m":            request.APIOther,
		"/v1beta/models/gemini-2.0-flash:generateContent":                                  request.APIGoogle,
		"/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse":                    request.APIGoogle,
		"/v1beta/openai/chat/completions":                                                  request.APIOther,
		"/v1/projects/p/locations/l/endpoints/1:predict":                                   request.APIGoogle,
		"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict": request.APIAnthropic,
		"/v1/models/ft:gpt-4o:org::abc":                                                    request.APIOther,
		"/model/arn:aws:x/invoke":                                                          request.APIOther,
		"/..":                                                                              request.APIOther,
		"*":                                                                                request.APIOther,
	} {
		require.Equal(t, want, request.APIOf(path), path)
	}
}

package request

import "github.com/headgate/headgate/admission/internal/text"

// An API is whose clients a path is for: they read errors in different forms.
type API uint8

// The APIs whose clients read errors in a form of their own.
const (
	APIOther API = iota // OpenAI's form, which many others have taken over
	APIAnthropic
	APIGoogle
)

// APIOf tells by a request's path for whose clients it is. Anthropic's clients speak to Google's Vertex, too.
func APIOf(path string) API {
	walk := segmentWalk{path: cutQuery(path), effort: effort{left: leastEffort}}
	if !walk.back() {
		return APIOther
	}
	last, before := walk.segment, ""
	if walk.back() {
		before = walk.segment
	}
	switch {
	case last == "messages", before == "messages" && (last == "count_tokens" || last == "batches"):
		return APIAnthropic
	case !isGoogleMethod(last):
		return APIOther
	case text.Index(path, "/publishers/anthropic/") >= 0:
		return APIAnthropic
	}
	return APIGoogle
}

// googleMethods are the methods of Google's model APIs, as they stand behind the last colon of a path.
var googleMethods = [...]string{"generateContent", "streamGenerateContent", "countTokens", "computeTokens",
	"embedContent", "batchEmbedContents", "predict", "rawPredict", "streamRawPredict", "predictLongRunning",
	"serverStreamingPredict", "generateAnswer", "generateMessage", "generateText", "embedText"}

func isGoogleMethod(segment string) bool {
	_, method, found := text.CutInLast(segment, ':')
	for i := 0; found && i < len(googleMethods); i++ {
		if method == googleMethods[i] {
			return true
		}
	}
	return false
}

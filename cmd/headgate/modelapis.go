package main

// A modelAPI has the calls of a provider's API that run a model, as route patterns. Calls that list, upload, cancel or
// only count tokens are none.
type modelAPI struct {
	provider string
	calls    []string
}

// modelAPIs is the table of the well-known model APIs: what the gateway governs without --limit. A new call goes here.
// The tests then say which lists to change: those of envoy.yaml and wasmplugin.yaml, and the table in docs/running.md.
//
// A pattern matches the end of a path. So a call stands below the first provider that has it, and is governed for all.
var modelAPIs = []modelAPI{
	{"OpenAI, Azure OpenAI, and all who offer OpenAI's API", []string{
		"POST /chat/completions", "POST /completions", "POST /responses", "POST /embeddings", "POST /moderations",
		"POST /images/generations", "POST /images/edits", "POST /images/variations",
		"POST /audio/speech", "POST /audio/transcriptions", "POST /audio/translations",
	}},
	{"Anthropic", []string{"POST /messages", "POST /complete"}},
	{"Google Gemini, Vertex AI", []string{
		"POST /*:generateContent", "POST /*:streamGenerateContent", "POST /*:generateAnswer",
		"POST /*:embedContent", "POST /*:batchEmbedContents",
		"POST /*:predict", "POST /*:predictLongRunning", "POST /*:serverStreamingPredict",
		"POST /*:rawPredict", "POST /*:streamRawPredict",
	}},
	{"Amazon Bedrock", []string{
		"POST /model/*/invoke", "POST /model/*/invoke-with-response-stream",
		"POST /model/*/converse", "POST /model/*/converse-stream",
	}},
	{"Amazon SageMaker, Databricks, MLflow", []string{"POST /invocations", "POST /invocations-response-stream"}},
	{"Cohere, Jina, Voyage", []string{
		"POST /v1/chat", "POST /v2/chat", "POST /rerank", "POST /multimodalembeddings",
	}},
	{"Mistral", []string{"POST /ocr"}},
	{"IBM watsonx", []string{
		"POST /text/generation", "POST /text/generation_stream", "POST /text/chat", "POST /text/chat_stream",
	}},
	{"Ollama", []string{"POST /api/chat", "POST /api/generate", "POST /api/embed"}},
	{"llama.cpp", []string{"POST /completion", "POST /infill", "POST /embedding", "POST /reranking"}},
	{"vLLM, SGLang", []string{"POST /score", "POST /pooling", "POST /classify"}},
	{"Hugging Face TGI and TEI", []string{
		"POST /generate", "POST /generate_stream", "POST /embed", "POST /embed_all", "POST /embed_sparse",
	}},
	{"Triton, KServe", []string{"POST /infer"}},
	{"Replicate", []string{"POST /predictions"}},
}

// wellKnownGroup is the group of the well-known calls: they share the limits.
const wellKnownGroup = "@models"

// wellKnownRoutes are the patterns of the table.
func wellKnownRoutes() (routes []string) {
	for _, api := range modelAPIs {
		for _, call := range api.calls {
			routes = append(routes, call+wellKnownGroup)
		}
	}
	return routes
}

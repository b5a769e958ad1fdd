// Package clients tests the gateway with the official clients of model APIs: what they send passes, and what they are
// refused with is what their own error types are made of. build/get-clients gets them. The test that takes them through
// `headgate run` is with the tool: cmd/headgate/clients_test.go.
package clients

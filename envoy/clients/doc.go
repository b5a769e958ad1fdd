// Package clients tests the gateway with the official clients of model APIs: what they send passes, and what they are
// refused with is what their own error types are made of. build/get-clients gets them.
package clients

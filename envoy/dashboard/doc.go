// Package dashboard tests the page of the admin listener in a real browser: against a scripted double of the admin
// API, for all that a page may be told, and against Envoy with the module, for what it is told.
package dashboard

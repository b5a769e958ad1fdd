// Package envoy holds the Envoy and Istio configuration that Headgate is deployed with, for people to read and for the
// headgate tool to render.
package envoy

import _ "embed"

// Bootstrap is envoy.yaml: a static Envoy bootstrap for a governed gateway to one model API.
//
//go:embed envoy.yaml
var Bootstrap []byte

// WasmPlugin is wasmplugin.yaml: the Istio resource that loads Headgate into a gateway.
//
//go:embed wasmplugin.yaml
var WasmPlugin []byte

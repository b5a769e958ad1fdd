// Package build holds what the headgate tool needs of the build: the script that finds or gets an Envoy, and its
// version.
package build

import _ "embed"

// GetEnvoy is the script get-envoy.
//
//go:embed get-envoy
var GetEnvoy string

// EnvoyVersion is envoy.version, with its newline.
//
//go:embed envoy.version
var EnvoyVersion string

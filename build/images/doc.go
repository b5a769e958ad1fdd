// Package images makes the container images of a release and pushes them, without a container engine:
//
//   - headgate: the module, in both layouts that Istio and Envoy Gateway pull
//   - headgate-tool: the tool and the module on an empty base, for linux on amd64 and arm64
//   - headgate-gateway: the same on an Envoy image that the caller names, for `headgate run`
//
// The same release gives the same digests. docs/images.md says what each image is for.
package images

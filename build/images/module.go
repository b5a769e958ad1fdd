package images

import (
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/headgate/headgate/build/archive"
	"github.com/headgate/headgate/build/toolbuild"
)

// The media types of a module's layers in the layout of an OCI artefact. The two layouts are in
// https://github.com/solo-io/wasm/tree/master/spec, which Istio and Envoy Gateway follow.
const (
	wasmConfigType = "application/vnd.module.wasm.config.v1+json"
	wasmLayerType  = "application/vnd.module.wasm.content.layer.v1+wasm"
)

// wasmConfig is what the layout wants beside the module. Istio and Envoy Gateway don't read it.
const wasmConfig = `{"type":"envoy_proxy","abiVersions":["v0.2.1"],"config":{"rootIds":[]}}`

// ModuleImage is the module in the layout "compat": an image whose last layer has the file plugin.wasm. It is one image
// and no index of platforms: a WasmPlugin's sha256 is compared with the digest of an image.
func (r *Release) ModuleImage() (v1.Image, error) {
	layer, err := r.layer(types.OCILayer,
		archive.File{Name: "LICENSE", Mode: 0o644, Data: r.License},
		archive.File{Name: "THIRD_PARTY_LICENSES", Mode: 0o644, Data: r.Notices},
		archive.File{Name: "plugin.wasm", Mode: 0o644, Data: r.Module},
	)
	if err != nil {
		return nil, err
	}
	// The platform is the one that builders of such images write. A module runs on every platform, but container engines
	// refuse to pull an image for wasip1.
	return r.image(newImage(), toolbuild.Platform{OS: "linux", Arch: "amd64"}, aboutModule, v1.Config{}, layer)
}

// ModuleArtifact is the module in the layout of an OCI artefact: a layer that is the file itself.
func (r *Release) ModuleArtifact() (v1.Image, error) {
	return r.image(newImage(), toolbuild.Platform{OS: "wasip1", Arch: "wasm"}, aboutModule, v1.Config{},
		static.NewLayer([]byte(wasmConfig), wasmConfigType), static.NewLayer(r.Module, wasmLayerType))
}

// sbomOf is an artefact with the bill of materials of what subject describes. Registries list it among the subject's
// referrers.
func sbomOf(subject v1.Descriptor, sbom []byte, sbomType string) (v1.Image, error) {
	img, err := mutate.AppendLayers(newImage(), static.NewLayer(sbom, types.MediaType(sbomType)))
	if err != nil {
		return nil, err
	}
	img = mutate.ConfigMediaType(img, types.MediaType(sbomType)) // it counts as the type of the artefact
	return mutate.Subject(img, v1.Descriptor{
		MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size,
	}).(v1.Image), nil
}

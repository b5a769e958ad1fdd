package images

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/headgate/headgate/build/archive"
)

// folder is where the tool and the module are. `headgate run` looks for the module beside the tool.
const folder = "opt/headgate/"

// user is who runs the tool: nobody with rights. Kubernetes' runAsNonRoot wants a number.
const user = "65532:65532"

// environment is where programs look for programs, and where the tool may keep files: the user has no home.
var environment = []string{
	"PATH=/" + folder + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
}

// ToolIndex is the tool for all platforms on an empty base.
func (r *Release) ToolIndex() (v1.ImageIndex, error) {
	system, err := r.systemLayer()
	if err != nil {
		return nil, err
	}
	config := v1.Config{Entrypoint: []string{"/" + folder + "headgate"}, Cmd: []string{"help"}, User: user,
		WorkingDir: "/", Env: environment}
	return r.index(aboutTool, func(t Tool) (v1.Image, error) {
		layers, err := r.toolLayers(t, types.OCILayer)
		if err != nil {
			return nil, err
		}
		return r.image(newImage(), t.Platform, aboutTool, config, append([]v1.Layer{system}, layers...)...)
	})
}

// GatewayIndex is the tool for all platforms on the images of base, which has Envoy and a shell.
func (r *Release) GatewayIndex(base v1.ImageIndex) (v1.ImageIndex, error) {
	return r.index(aboutGateway, func(t Tool) (v1.Image, error) {
		on, err := imageFor(base, t)
		if err != nil {
			return nil, err
		}
		below, err := on.ConfigFile()
		if err != nil {
			return nil, err
		}
		kind, err := on.MediaType()
		if err != nil {
			return nil, err
		}
		layerType := types.OCILayer
		if kind == types.DockerManifestSchema2 { // one image has the formats of OCI or those of Docker
			layerType = types.DockerLayer
		}
		layers, err := r.toolLayers(t, layerType)
		if err != nil {
			return nil, err
		}
		config := below.Config
		config.Entrypoint, config.Cmd = []string{"/" + folder + "headgate"}, []string{"help"}
		config.User, config.WorkingDir = user, "/"
		config.Env = withEnvironment(config.Env)
		return r.image(on, t.Platform, aboutGateway, config, layers...)
	})
}

// withEnvironment is the environment of a base with ours in place of the variables of the same name.
func withEnvironment(base []string) []string {
	kept := slices.DeleteFunc(slices.Clone(base), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.ContainsFunc(environment, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	})
	return append(kept, environment...)
}

// imageFor is the image of an index for the platform of a tool.
func imageFor(base v1.ImageIndex, t Tool) (v1.Image, error) {
	manifest, err := base.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.Platform != nil && m.Platform.OS == t.Platform.OS && m.Platform.Architecture == t.Platform.Arch {
			return base.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("the base has no image for %s", t.Platform)
}

// index is an index with an image of each tool.
func (r *Release) index(a about, image func(Tool) (v1.Image, error)) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range r.Tools {
		img, err := image(t)
		if err != nil {
			return nil, err
		}
		platform := &v1.Platform{OS: t.Platform.OS, Architecture: t.Platform.Arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, r.labels(a)).(v1.ImageIndex), nil
}

// toolLayers are a layer with the module and one with the tool. The first is the same for all platforms.
func (r *Release) toolLayers(t Tool, mediaType types.MediaType) ([]v1.Layer, error) {
	module, err := r.layer(mediaType,
		archive.File{Name: "opt/", Mode: 0o755}, archive.File{Name: folder, Mode: 0o755},
		archive.File{Name: folder + "LICENSE", Mode: 0o644, Data: r.License},
		archive.File{Name: folder + "THIRD_PARTY_LICENSES", Mode: 0o644, Data: r.Notices},
		archive.File{Name: folder + "headgate.wasm", Mode: 0o644, Data: r.Module},
	)
	if err != nil {
		return nil, err
	}
	tool, err := r.layer(mediaType, archive.File{Name: folder + "headgate", Mode: 0o755, Data: t.Binary})
	return []v1.Layer{module, tool}, err
}

// systemLayer is what programs expect of an empty system: whom to trust, who they are, and a place for temporary files.
func (r *Release) systemLayer() (v1.Layer, error) {
	return r.layer(types.OCILayer,
		archive.File{Name: "etc/", Mode: 0o755},
		archive.File{Name: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
		archive.File{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\n" +
			"nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n")},
		archive.File{Name: "etc/ssl/", Mode: 0o755}, archive.File{Name: "etc/ssl/certs/", Mode: 0o755},
		archive.File{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: authorities()},
		archive.File{Name: "tmp/", Mode: 0o1777},
	)
}

// authorities are Mozilla's root certificates, but for those that it trusts with conditions: a file can't say them.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

package images

import (
	"bytes"
	"io"
	"maps"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/headgate/headgate/build/archive"
	"github.com/headgate/headgate/build/toolbuild"
)

// An about is the title and the description of an image.
type about struct{ title, description string }

var (
	aboutModule  = about{"headgate", "Headgate's wasm module for Envoy, Istio and Envoy Gateway"}
	aboutTool    = about{"headgate-tool", "Headgate's command-line tool and its wasm module"}
	aboutGateway = about{"headgate-gateway", "Headgate's command-line tool and its wasm module, with Envoy"}
)

// labels are what OCI has names for. They are both the labels and the annotations of an image.
func (r *Release) labels(a about) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       a.title,
		prefix + "description": a.description,
		prefix + "version":     r.Stamp.Version,
		prefix + "revision":    r.Stamp.Commit,
		prefix + "created":     r.Stamp.Time.UTC().Format(time.RFC3339),
		prefix + "licenses":    "Apache-2.0",
		prefix + "source":      "https://github.com/headgate/headgate",
	}
}

// layer is a layer with these files.
func (r *Release) layer(mediaType types.MediaType, files ...archive.File) (v1.Layer, error) {
	text, err := archive.Tar(files, r.Stamp.Time)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(mediaType), tarball.WithCompressedCaching)
}

// newImage is an image by OCI's formats, not Docker's, with nothing in it.
func newImage() v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
}

// image adds layers to a base, and gives it a configuration with our labels in place of the base's.
func (r *Release) image(base v1.Image, p toolbuild.Platform, a about, config v1.Config, layers ...v1.Layer) (v1.Image,
	error,
) {
	adds := make([]mutate.Addendum, len(layers))
	for i, l := range layers {
		adds[i] = mutate.Addendum{Layer: l, History: v1.History{
			Created: v1.Time{Time: r.Stamp.Time}, CreatedBy: "make image", Comment: a.title,
		}}
	}
	img, err := mutate.Append(base, adds...)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	labels := r.labels(a)
	file.Created, file.OS, file.Architecture = v1.Time{Time: r.Stamp.Time}, p.OS, p.Arch
	file.Config = config
	file.Config.Labels = maps.Clone(labels)
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, labels).(v1.Image), nil
}

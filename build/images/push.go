package images

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/headgate/headgate/build/dependencies"
)

// A Push is where images go, and who is told of each.
type Push struct {
	Registry string // with a path if need be, e.g. registry.example.com/team
	Base     string // the Envoy image for the gateway's; "": no such image
	Pushed   func(reference string)
}

// Push pushes all images, each with its bill of materials. The tag is the version. Whoever is logged in with docker,
// podman or crane is logged in here.
func (r *Release) Push(ctx context.Context, to Push) error {
	p := &pusher{Push: to, tag: r.Stamp.Version, options: []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
	}}
	module, err := r.ModuleImage()
	if err != nil {
		return err
	}
	if err := p.image("headgate", p.tag, module, r.ModuleSBOM); err != nil {
		return err
	}
	artifact, err := r.ModuleArtifact()
	if err != nil {
		return err
	}
	if err := p.image("headgate", p.tag+"-artifact", artifact, r.ModuleSBOM); err != nil {
		return err
	}
	index, err := r.ToolIndex()
	if err != nil {
		return err
	}
	if err := p.index("headgate-tool", index, r.Tools); err != nil || to.Base == "" {
		return err
	}
	base, err := p.base()
	if err != nil {
		return fmt.Errorf("the base %s: %w", to.Base, err)
	}
	if index, err = r.GatewayIndex(base); err != nil {
		return fmt.Errorf("the base %s: %w", to.Base, err)
	}
	return p.index("headgate-gateway", index, r.Tools)
}

type pusher struct {
	Push
	tag     string
	options []remote.Option
}

// base gets the index of the base's images.
func (p *pusher) base() (v1.ImageIndex, error) {
	ref, err := name.ParseReference(p.Base)
	if err != nil {
		return nil, err
	}
	return remote.Index(ref, p.options...)
}

func (p *pusher) image(repository, tag string, img v1.Image, sbom []byte) error {
	ref, err := name.NewTag(p.Registry + "/" + repository + ":" + tag)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, img, p.options...); err != nil {
		return err
	}
	if err := p.attach(ref, img, sbom); err != nil {
		return err
	}
	return p.tell(ref, img)
}

func (p *pusher) index(repository string, index v1.ImageIndex, tools []Tool) error {
	ref, err := name.NewTag(p.Registry + "/" + repository + ":" + p.tag)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, p.options...); err != nil {
		return err
	}
	for _, t := range tools {
		img, err := imageFor(index, t)
		if err != nil {
			return err
		}
		if err := p.attach(ref, img, t.SBOM); err != nil {
			return err
		}
	}
	return p.tell(ref, index)
}

// attach pushes the bill of materials of an image into the image's repository.
func (p *pusher) attach(ref name.Tag, img v1.Image, sbom []byte) error {
	subject, err := partial.Descriptor(img)
	if err != nil {
		return err
	}
	bill, err := sbomOf(*subject, sbom, dependencies.SBOMType)
	if err != nil {
		return err
	}
	digest, err := bill.Digest()
	if err != nil {
		return err
	}
	return remote.Write(ref.Context().Digest(digest.String()), bill, p.options...)
}

func (p *pusher) tell(ref name.Tag, pushed partial.Describable) error {
	digest, err := pushed.Digest()
	if err == nil {
		p.Pushed(ref.String() + "@" + digest.String())
	}
	return err
}

package images_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/archive"
	"github.com/headgate/headgate/build/dependencies"
	"github.com/headgate/headgate/build/dist"
	"github.com/headgate/headgate/build/images"
	"github.com/headgate/headgate/build/toolbuild"
	"github.com/headgate/headgate/envoy/rig"
	"github.com/headgate/headgate/wasmtest"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

var (
	stamp     = toolbuild.Stamp{Version: "v1.2.3", Commit: "346e52681e5e4095324c84804988e68b5607f35d", Time: time.Unix(1e9, 0).UTC()}
	here      = toolbuild.Platform{OS: "linux", Arch: runtime.GOARCH}
	elsewhere = toolbuild.Platform{OS: "linux", Arch: map[bool]string{true: "arm64", false: "amd64"}[runtime.GOARCH == "amd64"]}
)

// release is a real release for this machine's architecture. Its files are there for the other one, too: images don't
// look into them, and a build of the other would take minutes.
var release = sync.OnceValues(func() (*images.Release, error) {
	dir, err := os.MkdirTemp("", "headgate-images-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "dist")
	if err := dist.Make(dist.Release{Root: "../..", Out: out, Stamp: stamp, Platforms: []toolbuild.Platform{here}}); err != nil {
		return nil, err
	}
	for _, end := range []string{".tar.gz", ".cdx.json"} {
		data, err := os.ReadFile(filepath.Join(out, "headgate-"+here.String()+end))
		if err == nil {
			err = os.WriteFile(filepath.Join(out, "headgate-"+elsewhere.String()+end), data, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	return images.ReadRelease(out, stamp, []toolbuild.Platform{here, elsewhere})
})

func mustRelease(t *testing.T) *images.Release {
	t.Helper()
	r, err := release()
	require.NoError(t, err)
	return r
}

// aRegistry is a registry on this machine. old: it knows no referrers.
func aRegistry(t *testing.T, old bool) (address string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(!old)))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/team"
}

// push pushes the release and returns what was told, by repository and tag.
func push(t *testing.T, to images.Push) map[string]name.Digest {
	t.Helper()
	pushed := map[string]name.Digest{}
	to.Pushed = func(reference string) {
		tag, digest, _ := strings.Cut(reference, "@")
		ref, err := name.NewTag(tag)
		require.NoError(t, err)
		pushed[strings.TrimPrefix(tag, to.Registry+"/")] = ref.Context().Digest(digest)
	}
	require.NoError(t, mustRelease(t).Push(context.Background(), to))
	return pushed
}

// pull gets an image as Istio and Envoy Gateway do.
func pull(t *testing.T, ref name.Reference) v1.Image {
	t.Helper()
	described, err := remote.Get(ref)
	require.NoError(t, err)
	img, err := described.Image()
	require.NoError(t, err)
	return img
}

// pullAll gets the images of an index by their architectures.
func pullAll(t *testing.T, ref name.Reference) map[string]v1.Image {
	t.Helper()
	index, err := remote.Index(ref)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, types.OCIImageIndex, manifest.MediaType)
	found := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		require.Equal(t, "linux", m.Platform.OS)
		found[m.Platform.Architecture], err = index.Image(m.Digest)
		require.NoError(t, err)
		file, err := found[m.Platform.Architecture].ConfigFile()
		require.NoError(t, err)
		require.Equal(t, m.Platform.Architecture, file.Architecture)
	}
	require.Len(t, found, 2)
	return found
}

func layersOf(t *testing.T, img v1.Image, mediaTypes ...types.MediaType) []v1.Layer {
	t.Helper()
	layers, err := img.Layers()
	require.NoError(t, err)
	var found []types.MediaType
	for _, l := range layers {
		mediaType, err := l.MediaType()
		require.NoError(t, err)
		found = append(found, mediaType)
	}
	require.Equal(t, mediaTypes, found)
	return layers
}

// compressed is what a layer is in the registry.
func compressed(t *testing.T, layer v1.Layer) []byte {
	t.Helper()
	r, err := layer.Compressed()
	require.NoError(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}

// TestThePulledModuleRuns reads both layouts as Istio's pkg/wasm/imagefetcher.go does, from which Envoy Gateway's comes.
func TestThePulledModuleRuns(t *testing.T) {
	pushed := push(t, images.Push{Registry: aRegistry(t, false)})
	image := pull(t, pushed["headgate:v1.2.3"])
	require.NoError(t, validate.Image(image))
	last := layersOf(t, image, types.OCILayer)[0]
	text, err := gzip.NewReader(bytes.NewReader(compressed(t, last)))
	require.NoError(t, err)
	module := filesIn(t, text)["plugin.wasm"]
	requireLabels(t, image, "headgate")

	artifact := pull(t, pushed["headgate:v1.2.3-artifact"])
	layers := layersOf(t, artifact, "application/vnd.module.wasm.config.v1+json", "application/vnd.module.wasm.content.layer.v1+wasm")
	require.True(t, json.Valid(compressed(t, layers[0])))
	require.True(t, bytes.Equal(module, compressed(t, layers[1])), "the layouts have different modules")

	built, err := rig.WasmPath()
	require.NoError(t, err)
	want, err := os.ReadFile(built)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, module), "the image's module is not the one of `make build`")

	compiled, err := wasmtest.Compile(module)
	require.NoError(t, err)
	host := wasmtest.Start(t, compiled)
	plugin := host.MustLoad(wasmtest.PluginConfig{Configuration: []byte(`{"pools": [{"name": "gateway", "limit": 0}]}`)})
	stream := plugin.Stream(0)
	stream.RequestHeaders(wasmtest.RequestHeaders("POST", "/chat"), true)
	require.EqualValues(t, 429, stream.LocalReply().Code)

	pulled := filepath.Join(t.TempDir(), "plugin.wasm")
	require.NoError(t, os.WriteFile(pulled, module, 0o600))
	closed := &rig.Config{Pools: []rig.Pool{{Name: "model", Key: []string{"model"}, Limit: 0}}}
	env := rig.NewWithModule(t, rig.Start(t, rig.Options{Workers: 1}), pulled, rig.Setup{Config: closed})
	reply := env.Do(t, rig.Call{})
	require.Equal(t, 429, reply.Status, "%s", reply)
	require.Equal(t, rig.Rejected, reply.Reason())
}

// filesIn are the contents of the files of a tar archive.
func filesIn(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for archived := tar.NewReader(r); ; {
		header, err := archived.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		require.True(t, header.ModTime.Equal(stamp.Time), header.Name)
		require.Zero(t, header.Uid+header.Gid)
		found[header.Name], err = io.ReadAll(archived)
		require.NoError(t, err)
	}
}

func requireLabels(t *testing.T, img v1.Image, title string) {
	t.Helper()
	file, err := img.ConfigFile()
	require.NoError(t, err)
	manifest, err := img.Manifest()
	require.NoError(t, err)
	require.True(t, file.Created.Equal(stamp.Time))
	require.Equal(t, file.Config.Labels, manifest.Annotations)
	for label, want := range map[string]string{
		"title": title, "version": "v1.2.3", "revision": stamp.Commit, "created": "2001-09-09T01:46:40Z", "licenses": "Apache-2.0",
	} {
		require.Equal(t, want, file.Config.Labels["org.opencontainers.image."+label])
	}
}

func TestEqualReleasesHaveEqualDigests(t *testing.T) {
	one, two := push(t, images.Push{Registry: aRegistry(t, false)}), push(t, images.Push{Registry: aRegistry(t, true)})
	require.Len(t, one, 3)
	for tag, digest := range one {
		require.Equal(t, digest.DigestStr(), two[tag].DigestStr(), tag)
	}
}

// A registry that has never heard of referrers gets a tag that lists them.
func TestImagesHaveTheirBillsOfMaterials(t *testing.T) {
	for _, old := range []bool{false, true} {
		pushed := push(t, images.Push{Registry: aRegistry(t, old)})
		r := mustRelease(t)
		requireSBOM(t, pushed["headgate:v1.2.3"], r.ModuleSBOM)
		requireSBOM(t, pushed["headgate:v1.2.3-artifact"], r.ModuleSBOM)
		tool := pushed["headgate-tool:v1.2.3"]
		for _, img := range pullAll(t, tool) {
			digest, err := img.Digest()
			require.NoError(t, err)
			requireSBOM(t, tool.Context().Digest(digest.String()), r.Tools[0].SBOM)
		}
	}
}

func requireSBOM(t *testing.T, of name.Digest, want []byte) {
	t.Helper()
	referrers, err := remote.Referrers(of)
	require.NoError(t, err)
	manifest, err := referrers.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	require.Equal(t, dependencies.SBOMType, manifest.Manifests[0].ArtifactType)
	bill := pull(t, of.Context().Digest(manifest.Manifests[0].Digest.String()))
	layer := layersOf(t, bill, dependencies.SBOMType)[0]
	require.True(t, bytes.Equal(want, compressed(t, layer)))
}

// unpack writes the files of an image into a folder.
func unpack(t *testing.T, img v1.Image) (root string) {
	t.Helper()
	root = t.TempDir()
	r := mutate.Extract(img)
	defer r.Close()
	for archived := tar.NewReader(r); ; {
		header, err := archived.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		require.NoError(t, err)
		path := filepath.Join(root, header.Name)
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o700))
			require.NoError(t, os.Chmod(path, header.FileInfo().Mode()))
			continue
		}
		data, err := io.ReadAll(archived)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, header.FileInfo().Mode()))
	}
}

func TestTheToolsImageHasAllThatTheToolNeeds(t *testing.T) {
	pushed := push(t, images.Push{Registry: aRegistry(t, false)})
	img := pullAll(t, pushed["headgate-tool:v1.2.3"])[here.Arch]
	layersOf(t, img, types.OCILayer, types.OCILayer, types.OCILayer)
	requireLabels(t, img, "headgate-tool")
	file, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/opt/headgate/headgate"}, file.Config.Entrypoint)
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, file.Config.User, "Kubernetes' runAsNonRoot wants a number")

	root := unpack(t, img)
	tool := filepath.Join(root, "opt/headgate/headgate")
	binary, err := elf.Open(tool)
	require.NoError(t, err)
	defer binary.Close()
	for _, p := range binary.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "the tool needs a loader, and the image has none")
	}
	module, err := os.ReadFile(filepath.Join(root, "opt/headgate/headgate.wasm"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(mustRelease(t).Module, module))
	bundle, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	require.NoError(t, err)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(bundle))
	require.Greater(t, bytes.Count(bundle, []byte("BEGIN CERTIFICATE")), 100)
	tmp, err := os.Stat(filepath.Join(root, "tmp"))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|os.ModeSticky|0o777, tmp.Mode())
	requireRuns(t, tool, module)
}

// requireRuns runs the tool of an image in an empty environment.
func requireRuns(t *testing.T, tool string, module []byte) {
	t.Helper()
	if runtime.GOOS != here.OS {
		return // the image's programs run on Linux alone; what is in them was looked at
	}
	command := exec.Command(tool, "version", "--json")
	command.Env = []string{}
	out, err := command.Output()
	require.NoError(t, err)
	var about struct {
		Version string
		Module  string `json:"module_sha256"`
	}
	require.NoError(t, json.Unmarshal(out, &about))
	require.Equal(t, "v1.2.3", about.Version)
	require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(module)), about.Module)
	check := exec.Command(tool, "check", "-")
	check.Env, check.Stdin = []string{}, strings.NewReader(`{"pools": [{"name": "gateway", "limit": -1}]}`)
	said, err := check.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "pools[0].limit")
}

// pushBase pushes an image like Envoy's own, in Docker's formats, in which envoy is a script that runs this machine's.
func pushBase(t *testing.T, to string, platforms ...toolbuild.Platform) {
	t.Helper()
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	script := "#!/bin/sh\nexec '" + binary + "' \"$@\"\n"
	text, err := archive.Tar([]archive.File{{Name: "usr/local/bin/envoy", Mode: 0o755, Data: []byte(script)}}, stamp.Time)
	require.NoError(t, err)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
	require.NoError(t, err)
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, p := range platforms {
		img, err := mutate.AppendLayers(empty.Image, layer)
		require.NoError(t, err)
		img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: p.OS, Architecture: p.Arch, Config: v1.Config{
			Env: []string{"ENVOY_UID=101", "PATH=/bin"}, Entrypoint: []string{"/docker-entrypoint.sh"}, Labels: map[string]string{"maintainer": "base"},
		}, RootFS: rootFS(t, img)})
		require.NoError(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
	}
	ref, err := name.ParseReference(to)
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, index))
}

func rootFS(t *testing.T, img v1.Image) v1.RootFS {
	t.Helper()
	file, err := img.ConfigFile()
	require.NoError(t, err)
	return file.RootFS
}

func TestTheGatewaysImageIsAnEnvoyImageWithTheTool(t *testing.T) {
	to := aRegistry(t, false)
	base := to + "/envoy:v1"
	pushBase(t, base, here, elsewhere)
	pushed := push(t, images.Push{Registry: to, Base: base})
	img := pullAll(t, pushed["headgate-gateway:v1.2.3"])[here.Arch]
	layersOf(t, img, types.DockerLayer, types.DockerLayer, types.DockerLayer)
	requireLabels(t, img, "headgate-gateway")
	file, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, []string{"/opt/headgate/headgate"}, file.Config.Entrypoint)
	require.Equal(t, "65532:65532", file.Config.User, "the base's program would have root's rights")
	require.Equal(t, []string{"ENVOY_UID=101", "PATH=/opt/headgate/:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"}, file.Config.Env)
	requireGovernedGateway(t, unpack(t, img), file.Config.Env)
}

// requireGovernedGateway starts `headgate run` in an unpacked image. It must find the image's Envoy and module.
func requireGovernedGateway(t *testing.T, root string, env []string) {
	t.Helper()
	if runtime.GOOS != here.OS {
		return // as in requireRuns
	}
	command := exec.Command(filepath.Join(root, "opt/headgate/headgate"), "run", "--sample", "--bind", "127.0.0.1:0", "--workers", "1", "--verbose")
	for _, variable := range env {
		variable = strings.Replace(variable, "/usr/local/bin", filepath.Join(root, "usr/local/bin"), 1) // where the base has Envoy
		command.Env = append(command.Env, strings.Replace(variable, "HOME=/tmp", "HOME="+t.TempDir(), 1))
	}
	command.Env = append(command.Env, "TMPDIR="+t.TempDir())
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	command.Stdout, command.Stderr = out, out
	require.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	said := func() string {
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		return string(text)
	}
	up := rig.Poll(90*time.Second, func() bool { return len(ended) > 0 || strings.Contains(said(), "Headgate is up") })
	running := len(ended) == 0
	if running {
		require.NoError(t, command.Process.Signal(os.Interrupt))
		require.NoError(t, <-ended, said())
	}
	require.True(t, up && running, said())
}

func TestABaseWithoutAPlatformIsRefused(t *testing.T) {
	to := aRegistry(t, false)
	base := to + "/envoy:v1"
	pushBase(t, base, here)
	err := mustRelease(t).Push(context.Background(), images.Push{Registry: to, Base: base, Pushed: func(string) {}})
	require.EqualError(t, err, "the base "+base+": the base has no image for "+elsewhere.String())
}

func TestARegistryThatIsNoneIsAnError(t *testing.T) {
	for _, to := range []string{"127.0.0.1:1/team", "not a registry"} {
		pushed := []string{}
		err := mustRelease(t).Push(context.Background(), images.Push{Registry: to, Pushed: func(r string) { pushed = append(pushed, r) }})
		require.Error(t, err)
		require.Empty(t, slices.Clone(pushed))
	}
}

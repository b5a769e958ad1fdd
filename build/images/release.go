package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/headgate/headgate/build/toolbuild"
)

// A Release is what images are made of.
type Release struct {
	Stamp      toolbuild.Stamp
	Module     []byte
	ModuleSBOM []byte
	Notices    []byte // THIRD_PARTY_LICENSES
	License    []byte
	Tools      []Tool
}

// A Tool is the tool for one platform.
type Tool struct {
	Platform toolbuild.Platform
	Binary   []byte
	SBOM     []byte
}

// ReadRelease reads what package dist made in a folder for these platforms.
func ReadRelease(folder string, stamp toolbuild.Stamp, platforms []toolbuild.Platform) (*Release, error) {
	r := &Release{Stamp: stamp}
	for file, into := range map[string]*[]byte{
		"headgate.wasm": &r.Module, "headgate.wasm.cdx.json": &r.ModuleSBOM, "THIRD_PARTY_LICENSES": &r.Notices,
	} {
		var err error
		if *into, err = os.ReadFile(filepath.Join(folder, file)); err != nil {
			return nil, err
		}
	}
	for _, p := range platforms {
		name := filepath.Join(folder, "headgate-"+p.String())
		files, err := readArchive(name + ".tar.gz")
		if err != nil {
			return nil, err
		}
		tool := Tool{Platform: p, Binary: files["headgate"]}
		if tool.SBOM, err = os.ReadFile(name + ".cdx.json"); err != nil {
			return nil, err
		}
		r.License = files["LICENSE"]
		if tool.Binary == nil || r.License == nil {
			return nil, fmt.Errorf("%s.tar.gz lacks headgate or LICENSE", name)
		}
		r.Tools = append(r.Tools, tool)
	}
	return r, nil
}

// readArchive returns the contents of an archive's files by their names without folders.
func readArchive(file string) (map[string][]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(text); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if files[path.Base(header.Name)], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
}

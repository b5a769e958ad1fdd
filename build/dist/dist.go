package dist

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/build/archive"
	"github.com/headgate/headgate/build/dependencies"
	"github.com/headgate/headgate/build/toolbuild"
	"github.com/headgate/headgate/build/wasmbuild"
)

// A Release says what to make and where.
type Release struct {
	Root      string // the folder of the source
	Out       string // the folder of the release, replaced whole
	Stamp     toolbuild.Stamp
	Platforms []toolbuild.Platform
}

// moduleName is the module's file name, in a release and beside the tool, where `headgate run` looks for it.
const moduleName = "headgate.wasm"

// noticesName is the file with the licences of all modules that the release has code of.
const noticesName = "THIRD_PARTY_LICENSES"

// Make makes the release. If that fails, a release that was there before stays as it is.
func Make(r Release) (err error) {
	out, err := filepath.Abs(r.Out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(out), ".dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	tools, err := os.MkdirTemp("", "headgate-dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tools)) }()
	m := &making{Release: r, folder: made, tools: tools}
	if err := m.all(); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(made, out)
}

// making is a release that is being made in folder, with tools in a folder of their own until they are packed.
type making struct {
	Release
	folder  string
	tools   string
	modules []dependencies.Module // of all that was made so far
	common  []archive.File        // what every archive has besides the tool
}

func (m *making) all() error {
	if err := m.makeModule(); err != nil {
		return err
	}
	for _, p := range m.Platforms {
		if err := m.makeTool(p); err != nil {
			return err
		}
	}
	if err := m.write(noticesName, []byte(dependencies.Notices(m.modules))); err != nil {
		return err
	}
	if err := m.gatherCommon(); err != nil {
		return err
	}
	for _, p := range m.Platforms {
		if err := m.writeArchive(p); err != nil {
			return err
		}
	}
	return m.writeSums()
}

func (m *making) path(name string) string { return filepath.Join(m.folder, name) }

func (m *making) write(name string, data []byte) error {
	return os.WriteFile(m.path(name), data, 0o644)
}

func (m *making) makeModule() error {
	source := filepath.Join(m.Root, "cmd", "filter")
	if err := wasmbuild.Module(source, m.path(moduleName)); err != nil {
		return err
	}
	if err := os.Chmod(m.path(moduleName), 0o644); err != nil {
		return err
	}
	modules, err := dependencies.List(source, "GOOS=wasip1", "GOARCH=wasm")
	if err != nil {
		return err
	}
	return m.writeSBOM(m.path(moduleName), modules)
}

// toolPath is where the tool for a platform is built.
func (m *making) toolPath(p toolbuild.Platform) string {
	return filepath.Join(m.tools, "headgate-"+p.String())
}

func (m *making) buildTool(p toolbuild.Platform) error {
	return toolbuild.Tool(toolbuild.ToolBuild{
		Root: m.Root, Platform: p, Stamp: m.Stamp, Module: m.path(moduleName), Out: m.toolPath(p),
	})
}

// makeTool builds the tool and writes its bill of materials.
func (m *making) makeTool(p toolbuild.Platform) error {
	if err := m.buildTool(p); err != nil {
		return err
	}
	source := filepath.Join(m.Root, "cmd", "headgate")
	listed, err := dependencies.List(source, "GOOS="+p.OS, "GOARCH="+p.Arch, "CGO_ENABLED=0")
	if err != nil {
		return err
	}
	modules, err := dependencies.InBinary(m.toolPath(p), listed)
	if err != nil {
		return err
	}
	return m.writeSBOM(m.toolPath(p), modules)
}

// writeSBOM writes the bill of materials of a file that has these modules.
func (m *making) writeSBOM(file string, modules []dependencies.Module) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	about := dependencies.Subject{
		Name: name, Version: m.Stamp.Version, SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Time: m.Stamp.Time,
	}
	bom, err := dependencies.SBOM(about, modules)
	if err != nil {
		return err
	}
	m.modules = dependencies.Union(m.modules, modules)
	return m.write(name+".cdx.json", bom)
}

// gatherCommon collects what every archive has besides the tool.
func (m *making) gatherCommon() error {
	files := []struct{ name, path string }{
		{moduleName, m.path(moduleName)}, {noticesName, m.path(noticesName)},
		{"LICENSE", filepath.Join(m.Root, "LICENSE")}, {"CHANGELOG.md", filepath.Join(m.Root, "CHANGELOG.md")},
	}
	for _, file := range files {
		data, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		m.common = append(m.common, archive.File{Name: file.name, Mode: 0o644, Data: data})
	}
	if host := toolbuild.Host(); !slices.Contains(m.Platforms, host) {
		if err := m.buildTool(host); err != nil {
			return err
		}
	}
	pages, err := shellFiles(m.toolPath(toolbuild.Host()))
	m.common = append(m.common, pages...)
	return err
}

// writeArchive writes the archive of a platform. All that is in it is in one folder.
func (m *making) writeArchive(p toolbuild.Platform) error {
	tool, err := os.ReadFile(m.toolPath(p))
	if err != nil {
		return err
	}
	name := "headgate-" + p.String()
	files := []archive.File{{Name: name + "/", Mode: 0o755}, {Name: name + "/headgate", Mode: 0o755, Data: tool}}
	for _, f := range m.common {
		f.Name = name + "/" + f.Name
		files = append(files, f)
	}
	var out bytes.Buffer
	if err := archive.WriteTarGz(&out, files, m.Stamp.Time); err != nil {
		return err
	}
	return m.write(name+".tar.gz", out.Bytes())
}

// writeSums writes SHA256SUMS, which `sha256sum -c` checks.
func (m *making) writeSums() error {
	entries, err := os.ReadDir(m.folder)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		data, err := os.ReadFile(m.path(e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return m.write("SHA256SUMS", []byte(strings.Join(lines, "")))
}

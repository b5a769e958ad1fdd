package toolbuild

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A Platform is an operating system and an architecture, by Go's names.
type Platform struct{ OS, Arch string }

// Host is the platform of this program.
func Host() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

// Released are the platforms that a release has a tool for.
func Released() []Platform {
	return []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

func (p Platform) String() string { return p.OS + "-" + p.Arch }

// A ToolBuild is one build of the tool.
type ToolBuild struct {
	Root     string // the folder of the source
	Platform Platform
	Stamp    Stamp
	Module   string // the file of the module that goes with the tool
	Out      string
}

// Tool builds the tool: a static binary without symbols, which knows its stamp and the hash of its module.
func Tool(b ToolBuild) error {
	out, err := filepath.Abs(b.Out)
	if err != nil {
		return err
	}
	module, err := os.ReadFile(b.Module)
	if err != nil {
		return fmt.Errorf("the module that goes with the tool: %w", err)
	}
	hash := sha256.Sum256(module)
	link := []string{"-s", "-w", "-X", "main.version=" + b.Stamp.Version, "-X", "main.commit=" + b.Stamp.Commit,
		"-X", "main.moduleSHA256=" + hex.EncodeToString(hash[:])}
	// The stamp stands for what -buildvcs would record: the time of the build and the state of the folder.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags="+strings.Join(link, " "), "-o", out,
		"./cmd/headgate")
	cmd.Dir = b.Root
	// With the lowest level of each architecture the tool runs everywhere, whatever this machine could do.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.Platform.OS, "GOARCH="+b.Platform.Arch,
		"GOAMD64=v1", "GOARM64=v8.0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the tool for %s: %w\n%s", b.Platform, err, stderr.Bytes())
	}
	return nil
}

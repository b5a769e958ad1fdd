package pictures

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/envoy/rig"
)

// Mark is a hash of the files that decide how a picture looks: those of the patterns, which begin at the repository's
// root, and this package. Tests among them count only by their full name.
func Mark(patterns ...string) (string, error) {
	root, err := rig.RepositoryRoot()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, pattern := range append(patterns, "envoy/pictures/*.go") {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", err
		}
		if strings.Contains(pattern, "*") {
			names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		}
		if len(names) == 0 {
			return "", fmt.Errorf("no file %s", pattern)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", strings.TrimPrefix(name, root), len(text), text)
		}
	}
	return fmt.Sprintf("inputs: %x", sum.Sum(nil)), nil
}

// MarkSVG puts a mark into a picture.
func MarkSVG(picture []byte, mark string) []byte {
	return fmt.Appendf(picture, "<!-- %s -->\n", mark)
}

// MarkPNG puts a mark into a picture, as text before its last chunk.
func MarkPNG(picture []byte, mark string) []byte {
	const lastChunk = 12
	end := len(picture) - lastChunk
	chunk := []byte("tEXtComment\x00" + mark)
	marked := binary.BigEndian.AppendUint32(slices.Clone(picture[:end]), uint32(len(chunk)-len("tEXt")))
	marked = append(marked, chunk...)
	marked = binary.BigEndian.AppendUint32(marked, crc32.ChecksumIEEE(chunk))
	return append(marked, picture[end:]...)
}

// HasMark tells whether a picture was made from the files as they are.
func HasMark(picture []byte, mark string) bool { return bytes.Contains(picture, []byte(mark)) }

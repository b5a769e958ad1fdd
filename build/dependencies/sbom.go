package dependencies

import (
	"bytes"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// A Subject is what a bill of materials is about.
type Subject struct {
	Name    string // of the file
	Version string
	SHA256  string
	Time    time.Time
}

// SBOMType is the media type of what SBOM returns.
const SBOMType = "application/vnd.cyclonedx+json"

// SBOM is the bill of materials of a program with these modules: CycloneDX 1.6, as JSON. It has no serial number,
// because equal bills of equal programs are to have equal bytes.
func SBOM(about Subject, modules []Module) ([]byte, error) {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: about.Time.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: about.Name, Type: cdx.ComponentTypeApplication, Name: about.Name, Version: about.Version,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: about.SHA256}},
		},
	}
	components, refs := []cdx.Component{}, []string{}
	for _, m := range modules {
		components = append(components, m.component())
		refs = append(refs, m.purl())
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: about.Name, Dependencies: &refs}}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	err := encoder.EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

func (m Module) component() cdx.Component {
	c := cdx.Component{
		BOMRef: m.purl(), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: m.purl(),
	}
	if len(m.Licenses) == 1 {
		c.Licenses = &cdx.Licenses{{License: &cdx.License{ID: m.Licenses[0]}}}
	} else {
		c.Licenses = &cdx.Licenses{{Expression: strings.Join(m.Licenses, " AND ")}}
	}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
	}
	return c
}

// purl is the module's package URL. Its letters are small by the rules for Go.
func (m Module) purl() string {
	return "pkg:golang/" + strings.ToLower(m.Path) + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
}

package dependencies

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences of dependencies that Headgate, which is under Apache-2.0, can be given away with, if their
// texts go along.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// legalFile matches the names of files about rights, isLicense the ones that must be licences.
var (
	legalFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|authors)([.-].*)?$`)
	isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
)

// addTexts adds the files about rights that are in a package's folder and in all above it, up to the module's.
func (m *Module) addTexts(moduleDir, packageDir string) error {
	for dir := packageDir; ; dir = filepath.Dir(dir) {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, file := range files {
			if file.Type().IsRegular() && legalFile.MatchString(file.Name()) && filepath.Ext(file.Name()) != ".go" {
				if err := m.addText(moduleDir, filepath.Join(dir, file.Name())); err != nil {
					return err
				}
			}
		}
		if dir == moduleDir {
			return nil
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("%s is not inside %s: %w", packageDir, moduleDir, fs.ErrNotExist)
		}
	}
}

func (m *Module) addText(moduleDir, path string) error {
	name, err := filepath.Rel(moduleDir, path)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	if slices.ContainsFunc(m.Texts, func(t Text) bool { return t.Name == name }) {
		return nil
	}
	text, err := os.ReadFile(path)
	m.Texts = append(m.Texts, Text{name, string(text)})
	return err
}

// identify finds out which licences the module's texts are, and sorts the texts.
func (m *Module) identify() error {
	slices.SortFunc(m.Texts, func(a, b Text) int { return strings.Compare(a.Name, b.Name) })
	for _, text := range m.Texts {
		if !isLicense.MatchString(text.Name[strings.LastIndexByte(text.Name, '/')+1:]) {
			continue
		}
		ids, err := identify(text.Text)
		if err != nil {
			return fmt.Errorf("%s of %s@%s: %w", text.Name, m.Path, m.Version, err)
		}
		m.Licenses = append(m.Licenses, ids...)
	}
	slices.Sort(m.Licenses)
	m.Licenses = slices.Compact(m.Licenses)
	if len(m.Licenses) == 0 {
		return fmt.Errorf("%s@%s has no licence", m.Path, m.Version)
	}
	return nil
}

// enoughOfText is how much of a file, in percent, must be known words of licences. The rest is names and years.
const enoughOfText = 75

func identify(text string) (ids []string, err error) {
	found := licensecheck.Scan([]byte(text))
	for _, match := range found.Match {
		if match.IsURL {
			continue
		}
		if !slices.Contains(allowed, match.ID) {
			return nil, fmt.Errorf("the licence %s is not among the allowed ones: %v", match.ID, allowed)
		}
		ids = append(ids, match.ID)
	}
	if len(ids) == 0 || found.Percent < enoughOfText {
		return nil, errors.New("not the text of a well-known licence")
	}
	return ids, nil
}

// Notices is one text with the licences and notices of the modules, which goes along with what they are in.
func Notices(modules []Module) string {
	var out strings.Builder
	out.WriteString("Headgate's files contain code of these modules. Their licences and notices are below.\n\n")
	for _, m := range modules {
		fmt.Fprintf(&out, "  %s %s: %s\n", m.name(), m.Version, strings.Join(m.Licenses, ", "))
	}
	for _, m := range modules {
		for _, text := range m.Texts {
			line := strings.Repeat("=", 80)
			fmt.Fprintf(&out, "\n%s\n%s %s: %s\n%s\n\n%s\n", line, m.name(), m.Version, text.Name, line,
				strings.TrimRight(text.Text, "\n"))
		}
	}
	return out.String()
}

// name is the module's name for people.
func (m Module) name() string {
	if m.Path == standardLibrary {
		return "Go and its standard library"
	}
	return m.Path
}

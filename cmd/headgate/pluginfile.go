package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/cmd/headgate/internal/check"
)

// A pluginFile is a plugin configuration that a person wrote. It takes the place of what the flags would make.
type pluginFile struct {
	path   string
	text   []byte      // as it was read
	fields []jsonField // in their order
	cfg    *config.Config
}

// maxPluginFile is the length in bytes of the longest file that is read.
const maxPluginFile = 1 << 20

// readPluginFile reads and checks the file at path.
func readPluginFile(path string) (*pluginFile, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	return parsePluginFile(path, text)
}

// readBounded returns the text of a file that is not too long for a plugin configuration.
func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPluginFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPluginFile {
		return nil, fmt.Errorf("%s is longer than %d bytes, which is no plugin configuration", path, maxPluginFile)
	}
	return text, nil
}

// parsePluginFile checks a file's text, JSON or YAML. The error names the file, the field and the problem.
func parsePluginFile(path string, text []byte) (*pluginFile, error) {
	f := &pluginFile{path: path, text: text}
	object, err := asJSON(text)
	if err == nil {
		f.cfg, err = config.Parse(object)
	}
	if err == nil {
		f.fields, err = topFields(object)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// asJSON returns a configuration's text as JSON. What does not begin with a brace is YAML.
func asJSON(text []byte) ([]byte, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return text, nil
	}
	return check.YAMLAsJSON(text)
}

// A jsonField is a field of a JSON object.
type jsonField struct {
	name  string
	value json.RawMessage
}

// topFields returns the fields of a JSON object in their order.
func topFields(object []byte) (fields []jsonField, err error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil { // the brace
		return nil, err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, jsonField{fmt.Sprint(name), value})
	}
	return fields, nil
}

// textFor is the configuration as JSON, for one stage, and in that mode unless mode is empty. Headgate decides the
// stage: it is where in Envoy the filter stands. exposed opens the admin listener to others than this machine.
func (f *pluginFile) textFor(stage, mode string, exposed bool) (string, error) {
	replaced := map[string]string{"stage": strconv.Quote(stage)}
	if mode != "" {
		replaced["mode"] = strconv.Quote(mode)
	}
	if exposed {
		replaced["admin"] = `{"expose":true}`
	}
	var text bytes.Buffer
	write := func(name string, value []byte) {
		separator := "{"
		if text.Len() > 0 {
			separator = ","
		}
		fmt.Fprintf(&text, "%s%q:%s", separator, name, value)
	}
	for _, field := range f.fields {
		if word, found := replaced[field.name]; found {
			field.value = json.RawMessage(word)
			delete(replaced, field.name)
		}
		write(field.name, field.value)
	}
	for _, name := range []string{"mode", "stage", "admin"} {
		if word, found := replaced[name]; found {
			write(name, []byte(word))
		}
	}
	text.WriteString("}")
	var indented bytes.Buffer
	if err := json.Indent(&indented, text.Bytes(), "", "  "); err != nil {
		return "", err
	}
	indented.WriteString("\n")
	if _, err := config.Parse(indented.Bytes()); err != nil {
		return "", fmt.Errorf("%s: %w", f.path, err)
	}
	return indented.String(), nil
}

package check

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML reads the documents of a YAML text. It leaves out empty ones. With a fault it still returns the
// documents before it.
func readYAML(text string) ([]*value, *fault) {
	var documents []*value
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return documents, yamlFault(err)
		}
		r := &yamlReader{}
		root, f := r.value(&document, 0)
		if f != nil {
			return documents, f
		}
		if len(documents) == maxDocuments {
			return documents, &fault{root.line, fmt.Sprintf("has more than %d documents", maxDocuments)}
		}
		if root.kind != kindNull {
			documents = append(documents, root)
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlFault takes the line out of an error of the YAML library.
func yamlFault(err error) *fault {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return &fault{1, "is not YAML: " + text}
	}
	line, _ := strconv.Atoi(m[1])
	return &fault{max(line, 1), "is not YAML: " + strings.TrimPrefix(text, m[0])}
}

// A yamlReader makes a tree of one document. It counts values, because aliases can repeat them without end.
type yamlReader struct{ count int }

func (r *yamlReader) value(n *yaml.Node, depth int) (*value, *fault) {
	if r.count++; r.count > maxValues {
		return nil, &fault{n.Line, fmt.Sprintf("has more than %d values", maxValues)}
	}
	if depth > maxDepth {
		return nil, &fault{n.Line, fmt.Sprintf("is nested deeper than %d", maxDepth)}
	}
	v := &value{line: n.Line}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], depth)
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		v.kind = kindList
		for _, element := range n.Content {
			child, f := r.value(element, depth+1)
			if f != nil {
				return nil, f
			}
			v.add(child)
		}
	case yaml.MappingNode:
		v.kind = kindMap
		return v, r.members(v, n, depth)
	default:
		v.scalar(n)
	}
	return v, nil
}

// members reads a mapping. A merge key (<<) gives the members that the mapping has not itself.
func (r *yamlReader) members(v *value, n *yaml.Node, depth int) *fault {
	var merged []*value
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		child, f := r.value(n.Content[i+1], depth+1)
		if f != nil {
			return f
		}
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			merged = append(append(merged, child), child.items()...)
		case key.Kind == yaml.ScalarNode:
			child.key = key.Value
			if child.kind >= kindList {
				child.line = key.Line
			}
			v.add(child)
		default:
			return &fault{key.Line, "has a key that is no text"}
		}
	}
	v.merge(merged)
	return nil
}

// merge adds the members of maps that v has not.
func (v *value) merge(maps []*value) {
	has := map[string]bool{}
	for _, c := range v.children {
		has[c.key] = true
	}
	for _, m := range maps {
		if m.kind != kindMap {
			continue
		}
		for _, c := range m.children {
			if !has[c.key] {
				has[c.key] = true
				v.add(c)
			}
		}
	}
}

// scalar reads a scalar in the way in which a YAML value becomes JSON.
func (v *value) scalar(n *yaml.Node) {
	v.kind, v.text, v.block = kindText, n.Value, n.Style&yaml.LiteralStyle != 0
	switch n.ShortTag() {
	case "!!null":
		v.kind, v.text = kindNull, "null"
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			v.kind, v.text = kindBool, strconv.FormatBool(b)
		}
	case "!!int", "!!float":
		var number any
		if n.Decode(&number) != nil {
			return
		}
		if text, isNumber := jsonNumber(number); isNumber {
			v.kind, v.text = kindNumber, text
		}
	}
}

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A yamlEdit changes values of a YAML document and keeps its comments and order. After the first failure it changes
// nothing more, and bytes returns that failure.
type yamlEdit struct {
	root yaml.Node
	err  error
}

func editYAML(text []byte) *yamlEdit {
	e := &yamlEdit{}
	e.err = yaml.Unmarshal(text, &e.root)
	return e
}

// fail notes the first failure.
func (e *yamlEdit) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// set replaces the value at path, e.g. clusters/0/name. The last key of the path may be new. All others must be there.
func (e *yamlEdit) set(path string, value any) {
	if e.err != nil {
		return
	}
	node, err := e.find(path, true)
	if err != nil {
		e.err = err
		return
	}
	was := *node
	e.err = node.Encode(value)
	node.HeadComment, node.LineComment, node.FootComment = was.HeadComment, was.LineComment, was.FootComment
	if text, isText := value.(string); isText && strings.Contains(text, "\n") {
		node.Style = yaml.LiteralStyle
	}
}

// remove takes the value at path, and its comments, out of the document.
func (e *yamlEdit) remove(path string) {
	e.withParent(path, func(parent *yaml.Node, i int) {
		n := 1
		if parent.Kind == yaml.MappingNode {
			i, n = i-1, 2
		}
		parent.Content = slices.Delete(parent.Content, i, i+n)
	})
}

// insert puts a value before the list element at path.
func (e *yamlEdit) insert(path string, value any) {
	e.withParent(path, func(parent *yaml.Node, i int) {
		var node yaml.Node
		e.fail(node.Encode(value))
		parent.Content = slices.Insert(parent.Content, i, &node)
	})
}

// duplicate puts a copy of the list element at path behind it. The copy has no comments.
func (e *yamlEdit) duplicate(path string) {
	e.withParent(path, func(parent *yaml.Node, i int) {
		parent.Content = slices.Insert(parent.Content, i+1, copyWithoutComments(parent.Content[i]))
	})
}

func copyWithoutComments(node *yaml.Node) *yaml.Node {
	c := *node
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	c.Content = make([]*yaml.Node, len(node.Content))
	for i, n := range node.Content {
		c.Content[i] = copyWithoutComments(n)
	}
	return &c
}

// setComment replaces the comment above the value at path. The YAML library keeps that comment at the value's key, or,
// in a list, at the element or at the element's first part.
func (e *yamlEdit) setComment(path, text string) {
	e.withParent(path, func(parent *yaml.Node, i int) {
		if parent.Kind == yaml.MappingNode {
			parent.Content[i-1].HeadComment = text
			return
		}
		element := parent.Content[i]
		element.HeadComment = text
		if len(element.Content) > 0 {
			element.Content[0].HeadComment = ""
		}
	})
}

// withParent calls f with the map or list that has the value at path, and with the value's index in it.
func (e *yamlEdit) withParent(path string, f func(parent *yaml.Node, i int)) {
	if e.err != nil {
		return
	}
	above, _ := cutLast(path, "/")
	parent, err := e.find(above, false)
	if err == nil {
		var node *yaml.Node
		if node, err = e.find(path, false); err == nil {
			f(parent, slices.Index(parent.Content, node))
		}
	}
	e.err = err
}

func cutLast(text, separator string) (before, after string) {
	i := strings.LastIndex(text, separator)
	return text[:i], text[i+1:]
}

// setTopComment replaces the comment at the top of the document.
func (e *yamlEdit) setTopComment(comment string) {
	if e.err != nil {
		return
	}
	e.root.HeadComment = ""
	e.root.Content[0].HeadComment = comment
	e.root.Content[0].Content[0].HeadComment = ""
}

// text returns the value at path, a scalar, as text.
func (e *yamlEdit) text(path string) string {
	if e.err != nil {
		return ""
	}
	node, err := e.find(path, false)
	if err != nil {
		e.err = err
		return ""
	}
	return node.Value
}

// find returns the node at path. With create it adds the last key of the path if that is missing.
func (e *yamlEdit) find(path string, create bool) (*yaml.Node, error) {
	node := e.root.Content[0]
	steps := strings.Split(path, "/")
	for i, step := range steps {
		next := child(node, step)
		if next == nil && create && i == len(steps)-1 && node.Kind == yaml.MappingNode {
			next = &yaml.Node{}
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: step}, next)
		}
		if next == nil {
			return nil, fmt.Errorf("the configuration to edit has no %s", strings.Join(steps[:i+1], "/"))
		}
		node = next
	}
	return node, nil
}

// child returns the value at a key of a map or at an index of a list, or nil.
func child(node *yaml.Node, step string) *yaml.Node {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i < len(node.Content) {
			return node.Content[i]
		}
	}
	return nil
}

func (e *yamlEdit) bytes() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&e.root); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

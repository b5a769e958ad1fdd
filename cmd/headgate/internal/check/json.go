package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headgate/headgate/admission/config"
)

// A fault is why a text is not JSON or not YAML.
type fault struct {
	line int
	text string
}

func (f *fault) Error() string { return f.text }

// A jsonReader reads JSON into a tree.
type jsonReader struct {
	text    string
	lines   lines
	decoder *json.Decoder
	count   int
}

// readJSON reads a text that holds one JSON value.
func readJSON(text string, l lines) (*value, *fault) {
	r := &jsonReader{text: text, lines: l, decoder: json.NewDecoder(strings.NewReader(text))}
	r.decoder.UseNumber()
	root, err := r.value(0)
	if err == nil {
		if _, end := r.decoder.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more text follows the value")
		}
	}
	if err == nil {
		return root, nil
	}
	var f *fault
	if errors.As(err, &f) {
		return nil, f
	}
	return nil, r.explain(err)
}

// explain says what is wrong with a text that is not JSON. The words are those of package config, unless it refuses
// something before that, which is good in a file of Envoy's.
func (r *jsonReader) explain(err error) *fault {
	var refused *config.Error
	_, e := config.Parse([]byte(r.text))
	if errors.As(e, &refused) && isSyntax(refused) && strings.Contains(refused.Problem, " (want ") {
		_, column, _ := strings.Cut(refused.Field, ", ")
		return &fault{r.lines.at(refused.At), column + ": " + refused.Problem}
	}
	return &fault{r.lines.at(r.next()), "is not JSON: " + err.Error()}
}

// isSyntax reports whether a refusal is about the text, and not about a value in it.
func isSyntax(e *config.Error) bool { return strings.HasPrefix(e.Field, "line ") }

// next returns where the next token begins.
func (r *jsonReader) next() int {
	start := int(r.decoder.InputOffset())
	for start < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[start]) >= 0 {
		start++
	}
	return start
}

// token returns the next token and the line in which it begins.
func (r *jsonReader) token() (json.Token, int, error) {
	line := r.lines.at(r.next())
	token, err := r.decoder.Token()
	return token, line, err
}

func (r *jsonReader) value(depth int) (*value, error) {
	token, line, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.count++; r.count > maxValues {
		return nil, &fault{line, fmt.Sprintf("has more than %d values", maxValues)}
	}
	if depth > maxDepth {
		return nil, &fault{line, fmt.Sprintf("is nested deeper than %d", maxDepth)}
	}
	v := &value{line: line}
	switch t := token.(type) {
	case json.Delim:
		v.kind = kindList
		if t == '{' {
			v.kind = kindMap
		}
		return v, r.children(v, depth)
	case string:
		v.kind, v.text = kindText, t
	case json.Number:
		v.kind, v.text = kindNumber, t.String()
	case bool:
		v.kind, v.text = kindBool, fmt.Sprint(t)
	default:
		v.text = "null"
	}
	return v, nil
}

// children reads what is in a list or map, and its closing bracket.
func (r *jsonReader) children(v *value, depth int) error {
	for r.decoder.More() {
		key, line := "", 0
		if v.kind == kindMap {
			token, l, err := r.token()
			if err != nil {
				return err
			}
			key, line = token.(string), l
		}
		child, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		child.key = key
		if v.kind == kindMap && child.kind >= kindList {
			child.line = line
		}
		v.add(child)
	}
	_, err := r.decoder.Token()
	return err
}

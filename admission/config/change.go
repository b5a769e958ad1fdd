package config

import "github.com/headgate/headgate/admission"

// A LimitChange is what an operator asks for at the admin stage.
type LimitChange struct {
	Pool   string
	Key    string
	HasKey bool // otherwise it is about the pool's default
	Limit  int
	Reset  bool // back to what the configuration says
}

const (
	changePool = iota
	changeKey
	changeLimit
)

var changeRules = []rule{
	changePool:  {name: "pool", form: formAny, required: true, then: (*Config).checkChangedName},
	changeKey:   {name: "key", form: formAny, then: (*Config).checkChangedName},
	changeLimit: {name: "limit", form: formAny, required: true, then: (*Config).checkChangedLimit},
}

// checkChangedName checks the name of a pool or key. A name that was made of a request may hold any characters.
func (c *Config) checkChangedName(n *node) *Error {
	switch {
	case n.kind != jsonString:
		return n.refuseValue(forms[formText].problem)
	case n.text == "" || len(n.text) > admission.MaxName:
		return n.refuse("is empty or longer than a name")
	}
	return nil
}

var changedLimitRule = rule{form: formInteger, most: admission.MaxLimit}

// checkChangedLimit checks the new limit, or null.
func (c *Config) checkChangedLimit(n *node) *Error {
	if n.kind == jsonNull {
		return nil
	}
	return c.check(n, &changedLimitRule, 0, admission.MaxLimit)
}

// ParseLimitChange reads a change of a limit: strict JSON. The error is about the first problem.
func ParseLimitChange(data []byte) (LimitChange, *Error) {
	root, err := parseJSON(data)
	if err != nil { // of what is no JSON it names a place in the text, which is no field
		return LimitChange{}, refusal("", "no JSON: "+err.Error())
	}
	if err := (&Config{}).check(root, &rule{form: formObject, fields: changeRules}, 0, 0); err != nil {
		return LimitChange{}, err
	}
	f := root.fields
	change := LimitChange{Pool: f[changePool].node.text, Limit: int(f[changeLimit].number),
		Reset: f[changeLimit].node.kind == jsonNull}
	if key := f[changeKey].node; key != nil {
		change.Key, change.HasKey = key.text, true
	}
	return change, nil
}

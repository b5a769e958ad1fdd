//go:build !wasip1

// The schema is the tool's, and not in the module.

package config

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// A Schema is a part of a JSON Schema, by its keywords.
type Schema = map[string]any

// JSONSchema is the JSON Schema (draft 2020-12) of a plugin configuration, made of the rules that Parse reads it by. It
// never refuses what Parse takes. Parse refuses more: values that depend on others, lengths in bytes, durations out of
// range, and what is there twice.
func JSONSchema() Schema {
	s := objectSchema(rootRules[:], "", "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Headgate's plugin configuration"
	delete(s, "required") // the stage admin can do without pools
	pools := s["properties"].(Schema)["pools"].(Schema)
	pools["minItems"] = 0
	s["if"] = Schema{"properties": Schema{"stage": Schema{"const": "admin"}}, "required": []string{"stage"}}
	s["else"] = Schema{"properties": Schema{"pools": Schema{"minItems": 1}}, "required": []string{"pools"}}
	return s
}

// schema is what a rule says. at is the place of the value, with [] for an element, and name its name.
func (r *rule) schema(at, name string) Schema {
	var s Schema
	switch r.form {
	case formText:
		s = Schema{"type": "string", "maxLength": maxTextBytes, "pattern": `^[^\x00-\x1f\x7f-\x9f]+$`}
	case formName:
		s = namePattern(maxNameBytes, r.more)
	case formHeader:
		s = namePattern(maxTextBytes, tokenBytes)
	case formInteger:
		s = r.integerSchema()
	case formDuration:
		s = Schema{"type": "string", "pattern": `^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(h|m|s|ms|us|µs|μs|ns))+)$`,
			"examples": []string{"5s", "250ms"}}
		if r.absent > 0 {
			s["default"] = admission.Duration(r.absent).String()
		}
	case formBoolean:
		s = Schema{"type": "boolean"}
	case formChoice:
		s = Schema{"enum": r.words}
	case formArray:
		s = Schema{"type": "array", "minItems": r.least, "maxItems": r.most, "items": r.each.schema(at+"[]", name)}
		if r.each.unique {
			s["uniqueItems"] = true
		}
	case formObject:
		s = objectSchema(r.fields, at, name)
	case formMap:
		s = Schema{"type": "object", "propertyNames": textRule.schema("", ""),
			"additionalProperties": r.each.schema(at+"{}", name)}
	default:
		s = Schema{}
	}
	return sayMore(s, at, name)
}

func namePattern(bytes int, more string) Schema {
	class := ""
	for i := range len(more) {
		if text.IndexByte(`-^.$*+|`, more[i]) >= 0 {
			class += `\`
		}
		class += more[i : i+1]
	}
	return Schema{"type": "string", "maxLength": bytes, "pattern": "^[A-Za-z0-9" + class + "]+$"}
}

func (r *rule) integerSchema() Schema {
	s := Schema{"type": "integer", "minimum": r.least, "maximum": r.most}
	if r.limitedBy != limitedByNone { // as much as the pool's limit, which may be 0
		s["minimum"], s["maximum"] = 0, admission.MaxLimit
	}
	if r.absent > 0 {
		s["default"] = r.absent
	}
	return s
}

// objectSchema is the schema of an object with these fields. array is the name of the array that it is an element of.
func objectSchema(rules []rule, at, array string) Schema {
	properties, required := Schema{}, []string{}
	beside := map[string][]any{} // what a field needs one of beside it
	for i := range rules {
		r := &rules[i]
		isSibling := r.onlyWith != "" && ruleIndex(rules, r.onlyWith) >= 0
		if r.onlyWith != "" && !isSibling && r.onlyWith != array {
			continue // a field of elements of another array
		}
		place := r.name
		if at != "" {
			place = at + "." + r.name
		}
		properties[r.name] = r.schema(place, r.name)
		if isSibling {
			beside[r.name] = append(beside[r.name], Schema{"required": []string{r.onlyWith}})
		}
		if r.required {
			required = append(required, r.name)
		}
	}
	s := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	for name, others := range beside {
		needsOf(s)[name] = Schema{"anyOf": others}
	}
	return s
}

// needsOf is what an object's schema says of the fields that need others beside them.
func needsOf(s Schema) Schema {
	needs, isThere := s["dependentSchemas"].(Schema)
	if !isThere {
		needs = Schema{}
		s["dependentSchemas"] = needs
	}
	return needs
}

func ruleIndex(rules []rule, name string) int {
	for i := range rules {
		if rules[i].name == name {
			return i
		}
	}
	return -1
}

// sayMore adds what the functions behind the rules check in code (their fields then), as far as a schema can say it.
func sayMore(s Schema, at, name string) Schema {
	switch at {
	case "pools[].name":
		s["not"] = Schema{"enum": reservedPools}
	case "pools[]":
		one := Schema{"properties": Schema{"key": Schema{"minItems": 1, "maxItems": 1}}, "required": []string{"key"}}
		needs := needsOf(s)
		needs["weights"], needs["keys"] = Schema{"required": []string{"fair_by"}}, one
	case "deadline.headers[]":
		return Schema{"anyOf": []any{deadlineNameRule.schema("", ""), deadlineHeaderRule.schema("", "")}}
	case "identity.tenant[]", "identity.model[]", "identity.class[]":
		s["oneOf"] = sourceKindSchemas()
		if name != "model" {
			trusted := Schema{"properties": Schema{"trusted": Schema{"const": true}}, "required": []string{"trusted"}}
			needs := needsOf(s)
			needs["header"], needs["path"] = trusted, trusted
		}
	}
	for _, source := range []string{"tenant", "model", "class"} {
		switch at {
		case "identity." + source + "[].trusted":
			return trustedRule.schema("", "")
		case "identity." + source + "[].path":
			return Schema{"type": "string", "maxLength": maxTextBytes, "pattern": `^[^{}*]*\{` + source + `\}[^{}*]*$`}
		case "identity." + source + "[].cluster":
			return Schema{"const": true}
		case "identity." + source + "[].metadata":
			s["minItems"] = 2
		}
	}
	return s
}

// sourceKindSchemas say that a source has one of the fields that make it one of a kind.
func sourceKindSchemas() (kinds []any) {
	for i := range sourceKinds {
		kinds = append(kinds, Schema{"required": []string{sourceRules[sourceKinds[i].field].name}})
	}
	return kinds
}

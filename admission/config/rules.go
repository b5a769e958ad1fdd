package config

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// A Error says why a configuration is refused. What it quotes of the configuration is escaped and cut, so that its
// text is one line that is safe to log.
type Error struct {
	Field   string // the field's path, e.g. `pools[1].max_wait`; for what is not JSON the line and column
	Problem string // what was wrong with which value, and what is allowed
}

// Error is the field and the problem, e.g. `pools[1].max_wait: "5" is not a duration (want e.g. "5s", "250ms")`.
func (e *Error) Error() string {
	field := e.Field + ": "
	if e.Field == "" {
		field = "the configuration "
	}
	return field + e.Problem
}

// refusal is a Error, made out of line as all of what is called from many places (see text.go).
//
//go:noinline
func refusal(field, problem string) *Error { return &Error{field, problem} }

// A form is what a value can be.
type form uint8

const (
	formAny      form = iota // the rule's then looks at it
	formText                 // a string of 1 to maxTextBytes bytes without control characters
	formName                 // 1 to maxNameBytes letters, digits and the bytes of the rule's more: fit to be part of a stat's name
	formHeader               // the name of a header
	formInteger              // a whole decimal number from least to most
	formDuration             // a duration of at least 1 ms from least to most, or 0 where least is 0
	formBoolean              // true or false
	formChoice               // one of the rule's words
	formArray                // least to most elements, each by the rule's each
	formObject               // an object with the rule's fields
	formMap                  // an object whose names are free: each a text, with a value by the rule's each
)

// forms has what each form is written as, and what is wrong with a value that is not. A problem that ends in a space goes
// on with what the rule wants.
var forms = [...]struct {
	kind    jsonKind
	problem string
}{
	formText:     {jsonString, "is not a string"},
	formName:     {jsonString, "is not a name (want "},
	formHeader:   {jsonString, "is not the name of a header"},
	formInteger:  {jsonNumber, "is not a whole number (want "},
	formDuration: {jsonString, `is not a duration (want e.g. "5s", "250ms")`},
	formBoolean:  {jsonBool, "is not true or false"},
	formChoice:   {jsonString, "is unknown (want "},
	formArray:    {jsonArray, "is not an array"},
	formObject:   {jsonObject, "is not an object"},
	formMap:      {jsonObject, "is not an object"},
}

const (
	outOfRange = "is out of range (want "
	negative   = "is negative (want "

	tokenBytes = "!#$%&'*+-.^_`|~" // of an HTTP token, beside letters and digits
)

// A rule says what a value must be, and as a field what it is called and whether it is there. The tables of rules are
// data, which costs the wasm module far less than code that does the same.
type rule struct {
	name string
	form form
	need bool   // it may not be absent
	once bool   // no element before it may be the same text
	when string // the field is known only beside this one, or in an array of this name

	least, most int64 // of a number, of an array's elements
	absent      int64 // the number when the field is absent; what the bounds leave of it
	above       uint8 // another number of the object, by its index, which is the least if it is larger; 0: none
	limited     uint8 // the most is the limit of a pool: 1: of this object, 2: of the one around it

	words  []string // of a choice, in the order of its constants
	more   string   // of a name
	each   *rule
	fields []rule
	then   func(c *Config, n *node) *Error // looks further at a value that is fine so far, and may store it in c
}

// A field is what check found for a field of an object's rules.
type field struct {
	number int64 // the number, or what holds without the field; of a duration nanoseconds, of a boolean 1 for true, of a choice the index
	node   *node // nil: absent
}

// check holds n against a rule with those bounds. It returns the first problem.
func (c *Config) check(n *node, r *rule, least, most int64) *Error {
	f := &forms[r.form]
	problem := f.problem
	if r.form == formAny {
		problem = ""
	} else if n.kind == f.kind {
		problem = n.judge(r, least, most)
	}
	if problem != "" {
		if problem[len(problem)-1] == ' ' {
			problem += r.wants(least, most) + ")"
		}
		return n.refuse(problem)
	}
	var err *Error
	switch r.form {
	case formArray, formMap:
		err = c.checkEach(n, r, least, most)
	case formObject:
		err = c.checkFields(n, r.fields)
	}
	if err != nil || r.then == nil {
		return err
	}
	return r.then(c, n)
}

// judge says what is wrong with the text of n, which is written as the rule's form is; it sets the number.
func (n *node) judge(r *rule, least, most int64) (problem string) {
	fine := true
	switch r.form {
	case formText:
		problem = textProblem(n.text)
	case formName, formHeader:
		bytes, more := maxNameBytes, r.more
		if r.form == formHeader {
			bytes, more = maxTextBytes, tokenBytes
		}
		fine = text.IsName(n.text, bytes, more)
	case formInteger:
		digits, minus := text.CutPrefix(n.text, "-")
		number, small := text.ParseDigits(digits, 1<<40)
		if n.number = number; minus {
			n.number = -n.number
		}
		if _, rest := text.CutDigits(digits); rest != "" {
			fine = false
		} else if !small || n.number < least || n.number > most {
			problem = outOfRange
		}
	case formDuration:
		d, p := admission.ParseDuration(n.text)
		n.number = int64(d)
		switch {
		case p == admission.DurationNone:
			fine = false
		case p == admission.DurationNegative:
			problem = negative
		case p == admission.DurationHuge || n.number < least || n.number > most || d > 0 && d < admission.Millisecond:
			problem = outOfRange
		}
	case formBoolean:
		if n.text == "true" {
			n.number = 1
		}
	case formChoice:
		n.number = int64(indexWord(r.words, n.text))
		fine = n.number >= 0
	}
	if !fine {
		problem = forms[r.form].problem
	}
	if r.once && problem == "" {
		for e := n.up.kids; e != n; e = e.next {
			if text.EqualFold(e.text, n.text) {
				problem = "is there twice"
			}
		}
	}
	return problem
}

func textProblem(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > maxTextBytes:
		return text.Around("is longer than ", maxTextBytes, " bytes")
	}
	for _, c := range s {
		if c < ' ' || 0x7F <= c && c < 0xA0 {
			return "holds a control character"
		}
	}
	return ""
}

// indexWord is where s is in words, or -1.
func indexWord(words []string, s string) int {
	for i := range words {
		if words[i] == s {
			return i
		}
	}
	return -1
}

// wants is what a rule with those bounds wants, in words.
func (r *rule) wants(least, most int64) string {
	switch r.form {
	case formName:
		return text.Around("1 to ", maxNameBytes, " letters, digits and "+quoteValue(r.more))
	case formChoice:
		list := ""
		for i := range r.words {
			list = listed(list, quoteValue(r.words[i]))
		}
		return list
	}
	if r.form != formDuration {
		return text.Around(text.Around("", int(least), " to "), int(most), "")
	}
	from := "0s, or 1ms"
	if least > 0 {
		from = admission.Duration(least).String()
	}
	return from + " to " + admission.Duration(most).String()
}

// listed is list with one word more.
//
//go:noinline
func listed(list, word string) string {
	if list == "" {
		return word
	}
	return list + ", " + word
}

// checkEach checks the elements of an array or the members of a map.
func (c *Config) checkEach(n *node, r *rule, least, most int64) *Error {
	if r.form == formMap {
		n.kind = jsonMap
		for e := n.kids; e != nil; e = e.next {
			name := node{kind: jsonString, up: n, name: e.name, text: e.name}
			if problem := textProblem(e.name); problem != "" {
				return name.refuse(problem)
			}
		}
	} else if count := int64(n.count()); count < least || count > most {
		return n.fail(text.Around("has ", int(count), " elements (want "+r.wants(least, most)+")"))
	}
	for e := n.kids; e != nil && r.each != nil; e = e.next {
		if err := c.check(e, r.each, r.each.least, r.each.most); err != nil {
			return err
		}
	}
	return nil
}

// checkFields checks the fields of n in the order of the rules, then refuses what no rule knows, then the absence of what
// is needed.
func (c *Config) checkFields(n *node, rules []rule) *Error {
	n.fields = make([]field, len(rules))
	missing := ""
	for i := range rules {
		r, f := &rules[i], &n.fields[i]
		if !n.knows(r) {
			continue
		}
		least, most := r.least, r.most
		if r.above > 0 {
			least = max(least, n.fields[r.above].number)
		}
		if r.limited > 0 {
			pool := n
			if r.limited > 1 {
				pool = n.up
			}
			most = pool.fields[poolLimit].number
			least = min(least, most)
		}
		f.node = n.member(r.name)
		if f.node == nil {
			f.number = min(max(r.absent, least), most)
			if r.need && missing == "" {
				missing = r.name
			}
			continue
		}
		f.node.known = true
		if err := c.check(f.node, r, least, most); err != nil {
			return err
		}
		f.number = f.node.number
	}
	for m := n.kids; m != nil; m = m.next {
		if !m.known {
			list := ""
			for i := range rules {
				if n.knows(&rules[i]) {
					list = listed(list, rules[i].name)
				}
			}
			return m.fail("is not a field here (want " + list + ")")
		}
	}
	if missing != "" {
		return (&node{up: n, name: missing}).fail("is missing")
	}
	return nil
}

// knows reports whether a rule with a condition holds in n.
//
//go:noinline
func (n *node) knows(r *rule) bool {
	if r.when == "" || r.when == n.up.name {
		return true
	}
	beside := n.member(r.when)
	return beside != nil && beside.known
}

// member is the member of that name, or nil.
//
//go:noinline
func (n *node) member(name string) *node {
	m := n.kids
	for m != nil && m.name != name {
		m = m.next
	}
	return m
}

// count is how many elements or members n has; none if there is no n.
func (n *node) count() (count int) {
	if n == nil {
		return 0
	}
	for e := n.kids; e != nil; e = e.next {
		count++
	}
	return count
}

// texts is the elements of an array of strings; none if there is no n.
//
//go:noinline
func (n *node) texts() (texts []string) {
	if n == nil {
		return nil
	}
	for e := n.kids; e != nil; e = e.next {
		texts = text.PutText(texts, e.text)
	}
	return texts
}

//go:noinline
func (n *node) fail(problem string) *Error { return refusal(n.path(), problem) }

// refuse says that the value is not what is wanted.
//
//go:noinline
func (n *node) refuse(problem string) *Error {
	var value string
	switch n.kind {
	case jsonString:
		value = quoteValue(n.text)
	case jsonArray:
		value = "an array"
	case jsonObject, jsonMap:
		value = "an object"
	default:
		value = cutText(n.text)
	}
	return n.fail(value + " " + problem)
}

// path is where n is in the configuration.
func (n *node) path() string {
	if n.up == nil {
		return ""
	}
	at := n.up.path()
	var place string
	switch {
	case n.up.kind == jsonArray:
		i := 0
		for e := n.up.kids; e != n; e = e.next {
			i++
		}
		return text.Around(at+"[", i, "]")
	case n.up.kind == jsonMap || !text.IsName(n.name, maxShown, "_-"):
		place = quoteValue(n.name)
	case at == "":
		return n.name
	default:
		return at + "." + n.name
	}
	return at + "[" + place + "]"
}

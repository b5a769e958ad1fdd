package config

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// An Error says why a configuration is refused. It escapes and cuts what it quotes of the configuration, so that its
// text is one line that is safe to log.
type Error struct {
	Field   string // the field's path, e.g. `pools[1].max_wait`; for what is not JSON the line and column
	Problem string // what was wrong with which value, and what is allowed
	At      int    // the byte of the text where the value begins, or the object that lacks it; 0 is the whole text
}

// Error returns the field and the problem, e.g. `pools[1].max_wait: "5" is not a duration (want e.g. "5s", "250ms")`.
func (e *Error) Error() string {
	field := e.Field + ": "
	if e.Field == "" {
		field = "the configuration "
	}
	return field + e.Problem
}

// refusal returns an Error. It is not inlined, as everything that is called from many places (see package text).
//
//go:noinline
func refusal(field, problem string) *Error { return &Error{Field: field, Problem: problem} }

// A form is what a value can be.
type form uint8

const (
	formAny      form = iota // anything: only the rule's then checks it
	formText                 // a string of 1 to maxTextBytes bytes without control characters
	formName                 // 1 to maxNameBytes letters, digits and bytes of the rule's more: fit for the name of a stat
	formHeader               // the name of a header
	formInteger              // a whole decimal number from least to most
	formDuration             // a duration of at least 1 ms from least to most, or 0 where least is 0
	formBoolean              // true or false
	formChoice               // one of the rule's words
	formArray                // least to most elements, each by the rule's each
	formObject               // an object with the rule's fields
	formMap                  // an object with any texts as names, each with a value by the rule's each
)

// forms has the kind of JSON value that each form is written as, and the problem of a value that is none. A problem
// that ends in a space is completed by what the rule wants.
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

	tokenBytes = "!#$%&'*+-.^_`|~" // what an HTTP token may have beside letters and digits
)

// A rule says what a value must be. The rule of a field also says the field's name, and when the field may be there.
type rule struct {
	name     string
	form     form
	required bool   // the field may not be absent
	unique   bool   // no element before it may be the same text
	onlyWith string // the field is allowed only beside the field of this name, or in an array of this name

	least, most int64     // of a number, or of how many elements an array has
	absent      int64     // the number when the field is absent; least and most bound it
	notBelow    uint8     // the index of the object's field whose number is the least if it is larger; 0: none
	limitedBy   limitedBy // the pool whose limit is the most

	words  []string                        // of a choice, in the order of its constants
	more   string                          // of a name
	each   *rule                           // of an array's or map's elements
	fields []rule                          // of an object
	then   func(c *Config, n *node) *Error // checks what the rest of the rule can't say, and may store the value in c
}

// A limitedBy says which pool's limit bounds a number.
type limitedBy uint8

const (
	limitedByNone  limitedBy = iota
	limitedByPool            // the number is a field of the pool
	limitedByOuter           // the number is a field of an object in the pool
)

// A field is what check has read for a field that the rules of an object name.
type field struct {
	number int64 // nanoseconds of a duration, 1 for true, the index of a choice; when absent the rule's number for that
	node   *node // nil: absent
}

// check reads n by a rule, with these bounds in place of the rule's own. It returns the first problem.
func (c *Config) check(n *node, r *rule, least, most int64) *Error {
	f := &forms[r.form]
	problem := f.problem
	if r.form == formAny {
		problem = ""
	} else if n.kind == f.kind {
		problem = n.readText(r, least, most)
	}
	if problem != "" {
		if problem[len(problem)-1] == ' ' {
			problem += r.wants(least, most) + ")"
		}
		return n.refuseValue(problem)
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

// readText reads the text of n, a value of the right kind for the rule, into its number. It returns what is wrong with
// it.
func (n *node) readText(r *rule, least, most int64) (problem string) {
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
	if r.unique && problem == "" {
		for e := n.parent.first; e != n; e = e.next {
			if text.EqualFold(e.text, n.text) {
				problem = "is there twice"
			}
		}
	}
	return problem
}

// textProblem returns why s is no text of a configuration, or "".
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

// indexWord returns the index of s in words, or -1.
func indexWord(words []string, s string) int {
	for i := range words {
		if words[i] == s {
			return i
		}
	}
	return -1
}

// wants describes the values that a rule with these bounds accepts.
func (r *rule) wants(least, most int64) string {
	switch r.form {
	case formName:
		return text.Around("1 to ", maxNameBytes, " letters, digits and "+quoteValue(r.more))
	case formChoice:
		list := ""
		for i := range r.words {
			list = withWord(list, quoteValue(r.words[i]))
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

// withWord returns a list with one word more, for an error.
func withWord(list, word string) string {
	if list == "" {
		return word
	}
	return list + ", " + word
}

// checkEach checks the elements of an array or the members of a map.
func (c *Config) checkEach(n *node, r *rule, least, most int64) *Error {
	if r.form == formMap {
		n.kind = jsonMap
		for e := n.first; e != nil; e = e.next {
			name := node{kind: jsonString, parent: n, name: e.name, text: e.name, at: e.at}
			if problem := textProblem(e.name); problem != "" {
				return name.refuseValue(problem)
			}
		}
	} else if count := int64(n.count()); count < least || count > most {
		return n.refuse(text.Around("has ", int(count), " elements (want "+r.wants(least, most)+")"))
	}
	for e := n.first; e != nil && r.each != nil; e = e.next {
		if err := c.check(e, r.each, r.each.least, r.each.most); err != nil {
			return err
		}
	}
	return nil
}

// checkFields checks the fields of n in the order of the rules. Then it refuses members that no rule names, and the
// absence of a required field.
func (c *Config) checkFields(n *node, rules []rule) *Error {
	n.fields = make([]field, len(rules))
	missing := ""
	for i := range rules {
		r, f := &rules[i], &n.fields[i]
		if !n.allows(r) {
			continue
		}
		least, most := r.least, r.most
		if r.notBelow > 0 {
			least = max(least, n.fields[r.notBelow].number)
		}
		if r.limitedBy != limitedByNone {
			pool := n
			if r.limitedBy == limitedByOuter {
				pool = n.parent
			}
			most = pool.fields[poolLimit].number
			least = min(least, most)
		}
		f.node = n.member(r.name)
		if f.node == nil {
			f.number = min(max(r.absent, least), most)
			if r.required && missing == "" {
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
	for m := n.first; m != nil; m = m.next {
		if !m.known {
			list := ""
			for i := range rules {
				if n.allows(&rules[i]) {
					list = withWord(list, rules[i].name)
				}
			}
			return m.refuse("is not a field here (want " + list + ")")
		}
	}
	if missing != "" {
		return (&node{parent: n, name: missing, at: n.at}).refuse("is missing")
	}
	return nil
}

// allows reports whether n may have the rule's field.
func (n *node) allows(r *rule) bool {
	if r.onlyWith == "" || r.onlyWith == n.parent.name {
		return true
	}
	other := n.member(r.onlyWith)
	return other != nil && other.known
}

// member returns the member of that name, or nil.
//
//go:noinline
func (n *node) member(name string) *node {
	m := n.first
	for m != nil && m.name != name {
		m = m.next
	}
	return m
}

// count returns how many elements or members n has. A nil n has none.
func (n *node) count() (count int) {
	if n == nil {
		return 0
	}
	for e := n.first; e != nil; e = e.next {
		count++
	}
	return count
}

// texts returns the elements of an array of strings. A nil n has none.
func (n *node) texts() (texts []string) {
	if n == nil {
		return nil
	}
	for e := n.first; e != nil; e = e.next {
		texts = text.PutText(texts, e.text)
	}
	return texts
}

// refuse returns an Error that names the field, and not its value.
func (n *node) refuse(problem string) *Error {
	err := refusal(n.path(), problem)
	err.At = n.at
	return err
}

// refuseValue returns an Error that names the field and its value.
func (n *node) refuseValue(problem string) *Error {
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
	return n.refuse(value + " " + problem)
}

// path returns where n is in the configuration, e.g. `pools[1].keys["acme"]`.
func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	at := n.parent.path()
	var index string
	switch {
	case n.parent.kind == jsonArray:
		i := 0
		for e := n.parent.first; e != n; e = e.next {
			i++
		}
		return text.Around(at+"[", i, "]")
	case n.parent.kind == jsonMap || !text.IsName(n.name, maxShown, "_-"):
		index = quoteValue(n.name)
	case at == "":
		return n.name
	default:
		return at + "." + n.name
	}
	return at + "[" + index + "]"
}

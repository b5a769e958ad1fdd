package admission

import (
	"strconv"
	"unicode/utf8"
)

// A ConfigError says why a configuration is refused. What it quotes of the configuration is escaped and cut, so that its
// text is one line that is safe to log.
type ConfigError struct {
	Field   string // the field's path, e.g. `pools[1].max_wait`; for what is not JSON the line and column
	Problem string // what was wrong with which value, and what is allowed
}

// Error is the field and the problem, e.g. `pools[1].max_wait: "5" is not a duration (want e.g. "5s", "250ms")`.
func (e *ConfigError) Error() string {
	if e.Field == "" {
		return "the configuration " + e.Problem
	}
	return e.Field + ": " + e.Problem
}

// problems keeps the first problem of a parse. Parsing goes on after it, on zero values, and its result is dropped.
type problems struct{ first *ConfigError }

func (p *problems) add(field, problem string) {
	if p.first == nil {
		p.first = &ConfigError{Field: field, Problem: problem}
	}
}

// A field is one value of the configuration and where it is. Its methods check the value's form; when it has another
// one they record a problem and answer false.
type field struct {
	path  string
	value *jsonValue
	*problems
}

func (f *field) fail(problem string) { f.add(f.path, problem) }

// refuse records that f's value is not what is wanted.
func (f *field) refuse(problem string) { f.fail(f.value.describe() + " " + problem) }

// text is a string of 1 to 256 bytes without control characters.
func (f *field) text() (string, bool) {
	s := f.value.text
	switch {
	case f.value.kind != jsonString:
		f.refuse("is not a string")
	case s == "":
		f.refuse("is empty")
	case len(s) > maxTextBytes:
		f.refuse("is longer than " + strconv.Itoa(maxTextBytes) + " bytes")
	case hasControl(s):
		f.refuse("holds a control character")
	default:
		return s, true
	}
	return "", false
}

// name is a string of 1 to 64 letters, digits and the characters of more, fit to be part of a stat's name.
func (f *field) name(more string) (string, bool) {
	s := f.value.text
	if f.value.kind != jsonString || s == "" || len(s) > maxNameBytes || anyRune(s, notIn(more)) {
		f.refuse("is not a name (want 1 to " + strconv.Itoa(maxNameBytes) + " letters, digits and " + quoteValue(more) + ")")
		return "", false
	}
	return s, true
}

// header is the name of a header, made lower case.
func (f *field) header() (string, bool) {
	s := f.value.text
	if f.value.kind != jsonString || s == "" || len(s) > maxTextBytes || anyRune(s, notIn("!#$%&'*+-.^_`|~")) {
		f.refuse("is not the name of a header")
		return "", false
	}
	name := []byte(s)
	for i := range name {
		name[i] = lower(name[i])
	}
	return string(name), true
}

// integer is a whole decimal number from least to most.
func (f *field) integer(least, most int) (int, bool) {
	want := " (want " + strconv.Itoa(least) + " to " + strconv.Itoa(most) + ")"
	digits, _ := cutPrefix(f.value.text, "-")
	if _, rest := cutDigits(digits); f.value.kind != jsonNumber || rest != "" {
		f.refuse("is not a whole number" + want)
		return 0, false
	}
	n := wholeNumber(digits)
	if digits != f.value.text {
		n = -n
	}
	if n < least || n > most {
		f.refuse("is out of range" + want)
		return 0, false
	}
	return n, true
}

// wholeNumber is the value of decimal digits, or something larger than any field may be.
func wholeNumber(digits string) int {
	n := 0
	for i := 0; i < len(digits) && n <= 1<<40; i++ {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}

// duration is a duration of at least 1 ms within s, or 0 where s begins at 0.
func (f *field) duration(s span) (Duration, bool) {
	d, problem := parseDuration(f.value.text)
	switch {
	case f.value.kind != jsonString || problem == durationNone:
		f.refuse(`is not a duration (want e.g. "5s", "250ms")`)
	case problem == durationNegative:
		f.refuse("is negative (want " + s.String() + ")")
	case problem == durationHuge || d < s.least || d > s.most || d > 0 && d < Millisecond:
		f.refuse("is out of range (want " + s.String() + ")")
	default:
		return d, true
	}
	return 0, false
}

// A span is what a duration field may hold.
type span struct{ least, most Duration }

func (s span) String() string {
	if s.least == 0 {
		return "0s, or 1ms to " + s.most.String()
	}
	return s.least.String() + " to " + s.most.String()
}

// boolean is true or false.
func (f *field) boolean() (value, ok bool) {
	if f.value.kind != jsonBool {
		f.refuse("is not true or false")
		return false, false
	}
	return f.value.text == "true", true
}

// choice is the index in choices of f's value.
func (f *field) choice(choices []string) (int, bool) {
	for i, c := range choices {
		if f.value.kind == jsonString && f.value.text == c {
			return i, true
		}
	}
	f.refuse("is unknown (want " + listQuoted(choices) + ")")
	return 0, false
}

// array is the elements of an array of least to most of them.
func (f *field) array(least, most int) []field {
	n := len(f.value.items)
	if f.value.kind != jsonArray {
		f.refuse("is not an array")
		return nil
	}
	if n < least || n > most {
		f.fail("has " + strconv.Itoa(n) + " elements (want " + strconv.Itoa(least) + " to " + strconv.Itoa(most) + ")")
		return nil
	}
	elements := make([]field, n)
	for i, v := range f.value.items {
		elements[i] = field{f.path + "[" + strconv.Itoa(i) + "]", v, f.problems}
	}
	return elements
}

// object is f's value as an object with fields of fixed names. One that is no object has no fields.
func (f *field) object() *object {
	o := &object{field: *f, read: make([]bool, len(f.value.members))}
	if f.value.kind != jsonObject {
		f.refuse("is not an object")
		o.broken = true
	}
	return o
}

// entries is the members of an object whose names are free: name and value of each, in the order they are written.
func (f *field) entries() []namedField {
	if f.value.kind != jsonObject {
		f.refuse("is not an object")
		return nil
	}
	var entries []namedField
	for _, m := range f.value.members {
		at := f.path + "[" + quoteValue(m.name) + "]"
		if name, ok := (&field{at, &jsonValue{kind: jsonString, text: m.name}, f.problems}).text(); ok {
			entries = append(entries, namedField{name, field{at, m.value, f.problems}})
		}
	}
	return entries
}

// A namedField is a member of an object whose names are free.
type namedField struct {
	name string
	field
}

// An object is read name by name; done then refuses what nobody read.
type object struct {
	field
	read    []bool
	asked   []string
	missing string // the first required field that is not there
	broken  bool
}

// get is the field of that name, if it is there.
func (o *object) get(name string) (field, bool) {
	o.asked = append(o.asked, name)
	for i, m := range o.value.members {
		if m.name == name {
			o.read[i] = true
			return field{o.child(name), m.value, o.problems}, true
		}
	}
	return field{}, false
}

// need is get for a required field.
func (o *object) need(name string) (field, bool) {
	f, ok := o.get(name)
	if !ok && o.missing == "" {
		o.missing = name
	}
	return f, ok
}

// integer reads an optional whole number; dst keeps its value when the field is absent.
func (o *object) integer(name string, least, most int, dst *int) {
	if f, ok := o.get(name); ok {
		*dst, _ = f.integer(least, most)
	}
}

// duration reads an optional duration; dst keeps its value when the field is absent.
func (o *object) duration(name string, s span, dst *Duration) {
	if f, ok := o.get(name); ok {
		*dst, _ = f.duration(s)
	}
}

// choose reads an optional word; dst becomes its index in choices, or keeps its value when the field is absent.
func choose[T ~uint8](o *object, name string, choices []string, dst *T) {
	if f, ok := o.get(name); ok {
		i, _ := f.choice(choices)
		*dst = T(i)
	}
}

// done refuses what nobody asked for, then the absence of what was needed.
func (o *object) done() {
	if o.broken {
		return
	}
	for i, m := range o.value.members {
		if !o.read[i] {
			o.add(o.child(m.name), "is not a field here (want "+join(o.asked, ", ")+")")
		}
	}
	if o.missing != "" {
		o.add(o.child(o.missing), "is missing")
	}
}

// child is the path of a member.
func (o *object) child(name string) string {
	switch {
	case name == "" || len(name) > maxShown || anyRune(name, notIn("_-")):
		return o.path + "[" + quoteValue(name) + "]"
	case o.path == "":
		return name
	}
	return o.path + "." + name
}

// describe is v as an error shows it.
func (v *jsonValue) describe() string {
	switch v.kind {
	case jsonString:
		return quoteValue(v.text)
	case jsonArray:
		return "an array"
	case jsonObject:
		return "an object"
	}
	return cutText(v.text)
}

// maxShown is how many bytes of a value an error shows.
const maxShown = 40

// quoteValue is s in quotes, cut, with everything escaped that could forge a line or hide in one.
// strconv.Quote would link its tables of printable characters, and unicode's, into the wasm module.
func quoteValue(s string) string {
	s = cutText(s)
	b := []byte{'"'}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		b = appendEscaped(b, s[i:i+n], r)
		i += n
	}
	return string(append(b, '"'))
}

func appendEscaped(b []byte, char string, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(b, '\\', char[0])
	case r == '\n':
		return append(b, '\\', 'n')
	case r >= ' ' && !hidden(r) && (r != utf8.RuneError || len(char) > 1):
		return append(b, char...)
	}
	for i := range len(char) {
		b = append(b, '\\', 'x', "0123456789abcdef"[char[i]>>4], "0123456789abcdef"[char[i]&15])
	}
	return b
}

// hidden reports whether a character is invisible or turns the direction of what follows.
func hidden(r rune) bool {
	return 0x7F <= r && r < 0xA0 || r == 0xAD || 0x200B <= r && r <= 0x200F || 0x2028 <= r && r <= 0x202E ||
		0x2060 <= r && r <= 0x206F || r == 0xFEFF || 0xFFF9 <= r && r <= 0xFFFB || r >= 0xE0000
}

// cutText is s, or the beginning of it and an ellipsis.
func cutText(s string) string {
	if len(s) <= maxShown {
		return s
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

func listQuoted(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quoteValue(w)
	}
	return join(quoted, ", ")
}

// notIn answers whether a character is no ASCII letter, no digit and none of more.
func notIn(more string) func(rune) bool {
	return func(c rune) bool {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		return !letter && (c < '0' || c > '9') && (c >= 0x80 || indexByte(more, byte(c)) < 0)
	}
}

func hasControl(s string) bool {
	return anyRune(s, func(c rune) bool { return c < ' ' || 0x7F <= c && c < 0xA0 })
}

package admin

// A query is what a request asks for behind the ? of its path.
type query struct {
	pool, key       string
	hasPool, hasKey bool
	after           string
	limit           int // 0: not given
}

// readQuery reads a query. Fields that it does not know mean nothing.
func readQuery(text string) (q query, refused *failure) {
	for text != "" {
		var field string
		field, text = cut(text, '&')
		name, value := cut(field, '=')
		value = unescape(value)
		switch name {
		case "pool":
			q.pool, q.hasPool = value, true
		case "key":
			q.key, q.hasKey = value, true
		case "after":
			q.after = value
		case "limit":
			n, ok := wholeNumber(value)
			if !ok || n < 1 {
				return q, &failure{400, "limit", "limit: not a whole number from 1 on"}
			}
			q.limit = int(min(n, 1<<30))
		}
	}
	return q, nil
}

// unescape decodes a value of a query. An escape that is none stays as it is.
func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			c = byte(hexDigit(s[i+1])<<4 | hexDigit(s[i+2]))
			i += 2
		}
		b = append(b, c)
	}
	return string(b)
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// wholeNumber reads a number of at most 15 decimal digits.
func wholeNumber(s string) (n int64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' || i == 15 {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, s != ""
}

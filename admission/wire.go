package admission

// extend returns dst with n more bytes, whatever they hold.
func extend(dst []byte, n int) []byte {
	if n > cap(dst)-len(dst) {
		dst = append(make([]byte, 0, 2*(len(dst)+n)), dst...)
	}
	return dst[:len(dst)+n]
}

// incomparable makes a struct that begins with it one that can't be compared, so that no code is made for it that
// nobody calls: some hundred bytes of module for each.
type incomparable [0]func()

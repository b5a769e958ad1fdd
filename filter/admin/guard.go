package admin

// Who may ask, and what. Nobody logs in here: the listener is for those who can reach it, which on loopback are the
// programs of the same machine. A browser on it is one, and does what pages from anywhere tell it to. So:
//
//   - The listener is on loopback, or the configuration says that it may be open.
//   - On loopback the request names no host of the public DNS. A page can have its own name point to 127.0.0.1 (DNS
//     rebinding), and then is of the same origin as this listener for a browser; the name still tells them apart.
//   - A change comes from the page that this listener has served, or from no page. Its content type is one that a page
//     of another origin can't send without being asked first, and nobody here says yes.

// A failure is why a request is refused.
type failure struct {
	status  uint32
	field   string
	message string
}

// headers are what a request's headers say, as far as it matters.
type headers struct {
	method, path, query string
	host                string
	contentType         string
	encoding            string // accept-encoding
	length              string
	origins             []string
	hasEncoding         bool
	hasSite             bool
	site                string // sec-fetch-site
}

const exposeHint = `set "admin": {"expose": true} in this stage's configuration if others keep strangers away from it`

// refuseStranger refuses a request that comes in another way than over loopback. address is the one that the client has
// connected to.
func (h *headers) refuseStranger(address string, exposed bool) *failure {
	if exposed {
		return nil
	}
	if !isLoopback(hostOf(address)) && !isLocalSocket(address) {
		return &failure{403, "", "the admin listener is reached at " + printable(address) +
			", which is not loopback: have it listen at 127.0.0.1, or " + exposeHint}
	}
	if !isPrivateName(hostOf(h.host)) {
		return &failure{403, "", "the host " + printable(h.host) +
			" could be anybody's (want localhost, an IP address or a name without a dot): use such a one, or " + exposeHint}
	}
	return nil
}

// refuseForeignPage refuses a change that a page of another origin asks for.
func (h *headers) refuseForeignPage() *failure {
	for _, origin := range h.origins {
		if !h.isOwn(origin) {
			return &failure{403, "", "a page of the origin " + printable(origin) + " may change nothing here"}
		}
	}
	if h.hasSite && h.site != "same-origin" && h.site != "none" {
		return &failure{403, "", "a page of another site may change nothing here"}
	}
	if !isJSON(h.contentType) {
		return &failure{415, "", "the content type is not application/json"}
	}
	return nil
}

// isOwn reports whether an origin is that of the page here: a scheme, and the same host and port as the request's.
func (h *headers) isOwn(origin string) bool {
	for _, scheme := range [...]string{"http://", "https://"} {
		if len(origin) > len(scheme) && origin[:len(scheme)] == scheme {
			return lower(origin[len(scheme):]) == lower(h.host)
		}
	}
	return false
}

// isJSON reports whether a content type is JSON's, with parameters or without.
func isJSON(contentType string) bool {
	for i := range len(contentType) {
		if contentType[i] == ';' {
			contentType = contentType[:i]
			break
		}
	}
	for n := len(contentType); n > 0 && contentType[n-1] == ' '; n = len(contentType) {
		contentType = contentType[:n-1]
	}
	return lower(contentType) == "application/json"
}

// hostOf is a host and port without the port, and an IPv6 address without its brackets.
func hostOf(address string) string {
	if address != "" && address[0] == '[' {
		for i := range len(address) {
			if address[i] == ']' {
				return address[1:i]
			}
		}
	}
	for i := range len(address) {
		if address[i] == ':' {
			return address[:i]
		}
	}
	return address
}

// isPrivateName reports whether a host is an address, a name under localhost, or a name without a dot. Nobody can have
// such a name in the public DNS.
func isPrivateName(host string) bool {
	const local = ".localhost"
	host = lower(host)
	if n := len(host) - len(local); n > 0 && host[n:] == local {
		return true
	}
	_, isAddress := firstOfIPv4(host)
	_, behindDot := cut(host, '.')
	return isAddress || host != "" && len(behindDot) == 0 && host[len(host)-1] != '.' || isIPv6(host)
}

// isIPv6 reports whether a host that was in brackets is an address.
func isIPv6(host string) bool {
	_, behindColon := cut(host, ':')
	return behindColon != ""
}

// isLoopback reports whether an address is one of loopback: 127.0.0.0/8 or ::1.
func isLoopback(address string) bool {
	const mapped = "::ffff:"
	if address == "::1" {
		return true
	}
	if len(address) > len(mapped) && address[:len(mapped)] == mapped {
		address = address[len(mapped):]
	}
	first, ok := firstOfIPv4(address)
	return ok && first == 127
}

// firstOfIPv4 returns the first number of an IPv4 address; false: it is none.
func firstOfIPv4(address string) (first int, ok bool) {
	parts, digits, value := 0, 0, 0
	for i := range len(address) {
		c := address[i]
		switch {
		case '0' <= c && c <= '9' && digits < 3:
			value, digits = value*10+int(c-'0'), digits+1
			continue
		case c != '.' || digits == 0 || value > 255:
			return 0, false
		}
		if parts == 0 {
			first = value
		}
		parts, digits, value = parts+1, 0, 0
	}
	return first, parts == 3 && digits > 0 && value <= 255
}

// isLocalSocket reports whether an address is that of a Unix domain socket.
func isLocalSocket(address string) bool {
	return address != "" && (address[0] == '/' || address[0] == '@')
}

// acceptsGzip reports whether a client takes what is compressed with gzip: it says so, or says nothing about it.
func (h *headers) acceptsGzip() bool {
	if !h.hasEncoding {
		return true
	}
	others := false
	for s := lower(h.encoding); s != ""; {
		var one string
		one, s = cut(s, ',')
		coding, quality := cut(one, ';')
		takes := !isZero(quality)
		switch trim(coding) {
		case "gzip", "x-gzip":
			return takes
		case "*":
			others = takes
		}
	}
	return others
}

// isZero reports whether a quality is 0.
func isZero(quality string) bool {
	_, value := cut(quality, '=')
	value = trim(value)
	for i := range len(value) {
		if value[i] != '0' && value[i] != '.' {
			return false
		}
	}
	return value != ""
}

// cut splits s around the first c. Without one, all of it is before.
//
//go:noinline // as raw
func cut(s string, c byte) (before, after string) {
	for i := range len(s) {
		if s[i] == c {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// trim returns s without the spaces at its ends.
//
//go:noinline // as raw
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// lower returns s with its ASCII letters in lower case.
//
//go:noinline // as raw
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

// printable cuts what a message repeats of a request.
func printable(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	if s == "" {
		return "that is not named"
	}
	return s
}

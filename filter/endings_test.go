package filter_test

import (
	"github.com/headgate/headgate/wasmtest"
)

// An ending ends a request that runs.
type ending func(s *wasmtest.Stream)

func answer(status int, headers ...string) ending {
	return func(s *wasmtest.Stream) {
		s.ResponseHeaders(wasmtest.ResponseHeaders(status, headers...), false)
		s.ResponseBody([]byte("{}"), true)
	}
}

func hostReply(status int, details string) ending {
	return func(s *wasmtest.Stream) { s.HostReply(status, details, 0) }
}

func inMidStream(end ending) ending { return func(s *wasmtest.Stream) { begin(s); end(s) } }

// upgraded switches protocols, and ends as said after a while.
func upgraded(end ending) ending {
	return func(s *wasmtest.Stream) {
		s.ResponseHeaders(wasmtest.ResponseHeaders(101, "upgrade", "websocket"), false)
		s.ResponseBody([]byte("\x81\x02hi"), false)
		end(s)
	}
}

var (
	clientGone    ending = (*wasmtest.Stream).ClientGone
	upstreamReset ending = (*wasmtest.Stream).UpstreamReset
)

func begin(s *wasmtest.Stream) {
	s.ResponseHeaders(wasmtest.ResponseHeaders(200), false)
	s.ResponseBody([]byte("data: 1\n\n"), false)
}

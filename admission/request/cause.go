package request

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// clientFlags are the response flags that say by themselves that the client's side ended a request. They are bits of
// Envoy's number, in the order of its CoreResponseFlag, to which Envoy only ever appends.
const clientFlags = 1<<14 | // DC: the client closed its connection
	1<<16 | // SI: the stream was idle for too long, perhaps because the client stopped reading or sending
	1<<18 | // DPE: the client broke the protocol
	1<<22 | // DT: the stream took too long, perhaps for the same reason
	1<<28 //   DR: the client reset its stream

// CauseOfFlags reads Envoy's response flags.
func CauseOfFlags(flags uint64) admission.Cause {
	if flags&clientFlags != 0 {
		return admission.CauseClient
	}
	return admission.CauseUnknown
}

// A beginning is how a text begins that tells of a cause.
type beginning struct {
	text  string
	cause admission.Cause
}

// causes are Envoy's response code details by how they begin. The first that fits decides.
var causes = [...]beginning{
	{"via_upstream", admission.CauseUnknown}, // an answer has come, and nothing else has happened
	{"upstream_", admission.CauseProvider},
	{"response_timeout", admission.CauseProvider}, // of the route
	{"downstream_", admission.CauseClient},        // it closed its connection, or Envoy did
	{"http1.", admission.CauseClient},             // it broke its protocol
	{"http2.", admission.CauseClient},             // so, or it reset its stream
	{"http3.", admission.CauseClient},
	{"codec_error", admission.CauseClient},
	{"stream_idle_timeout", admission.CauseClient},
	{"max_duration_timeout", admission.CauseClient},
	{"duration_timeout", admission.CauseClient},
	{"request_overall_timeout", admission.CauseClient},
	{"request_header_timeout", admission.CauseClient},
	{"early_connect_data", admission.CauseClient},
}

// resets are the reasons that Envoy gives for a reset of the upstream, likewise. Others are the provider's.
var resets = [...]beginning{
	{"overflow", admission.CauseProxy},                        // the cluster's circuit breakers
	{"overload_manager", admission.CauseProxy},                // Envoy's memory
	{"remote_connection_failure", admission.CauseUnreachable}, // refused, or TLS
	{"local_connection_failure", admission.CauseUnreachable},
	{"connection_timeout", admission.CauseUnreachable},
	{"remote_", admission.CauseReset},
	{"connection_termination", admission.CauseReset},
}

// CauseOfDetails reads Envoy's response code details. Those that it does not know are of another filter, or of Envoy
// itself, which answers for many reasons: no route, no healthy host, a limit of its own.
//
//go:noinline // what is rare stays one piece of the module
func CauseOfDetails(details string) admission.Cause {
	if details == "" {
		return admission.CauseUnknown
	}
	known, cause := causes[:], admission.CauseProxy
	if text.HasPrefix(details, "upstream_reset_") {
		_, details, _ = text.Cut(details, "{")
		known, cause = resets[:], admission.CauseProvider
	}
	for i := range known {
		if text.HasPrefix(details, known[i].text) {
			return known[i].cause
		}
	}
	return cause
}

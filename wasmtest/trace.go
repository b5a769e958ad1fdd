package wasmtest

import (
	"fmt"
	"io"
)

// WithTrace writes one line of text per callback, host call, log line and violation to w. The same module, inputs and
// seed give the same text, byte for byte, so two traces can be compared. A host call's line is indented below its
// callback's.
func WithTrace(w io.Writer) Option {
	return func(o *options) { o.trace = w }
}

func (h *Host) trace(who, format string, args ...any) {
	if h.traceTo == nil {
		return
	}
	fmt.Fprintf(h.traceTo, "%12.6fs %-6s %s\n", h.Elapsed().Seconds(), who, fmt.Sprintf(format, args...))
}

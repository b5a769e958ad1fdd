package request

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// MaxDeadline is what a larger deadline counts as: about 73 years, which can be added to any time without overflow.
const MaxDeadline admission.Duration = 1 << 61

// A deadlineForm is a way to write a deadline.
type deadlineForm uint8

const (
	deadlineMillis deadlineForm = iota // digits alone: milliseconds
	deadlineGRPC                       // 1 to 8 digits and one of H M S m u n
	deadlineGo                         // a Go duration: "10s", "1.5s", "250ms"
)

// grpcUnits is the units of the gRPC form.
const grpcUnits = "HMSmun"

var grpcUnitSizes = [len(grpcUnits)]admission.Duration{admission.Hour, admission.Minute, admission.Second, admission.Millisecond, admission.Microsecond, 1}

// ParseDeadline reads the value of a deadline header: how long the client waits, from now. ok is false for what is
// malformed or negative. 0 is fine, and means already expired. Spaces around the value do not count. A value beyond
// MaxDeadline, however long, is MaxDeadline.
//
// grpc-timeout, the one standard name, has gRPC's form only. Any other header holds milliseconds (digits alone; a
// fraction is malformed), a Go duration ("10s", "250ms"), or gRPC's form; where the last two would both do the Go
// duration wins: "5m" is 5 minutes there, and 5 milliseconds in grpc-timeout. header is in lower case.
func ParseDeadline(header, value string) (d admission.Duration, ok bool) {
	d, _, ok = parseDeadline(header, value)
	return min(d, MaxDeadline), ok
}

func parseDeadline(header, value string) (d admission.Duration, form deadlineForm, ok bool) {
	value = text.Trim(value, " \t")
	if header == "grpc-timeout" {
		d, ok = parseGRPCTimeout(value)
		return d, deadlineGRPC, ok
	}
	if digits, rest := text.CutDigits(value); rest == "" && digits != "" {
		return saturate(digits, admission.Millisecond), deadlineMillis, true
	}
	switch d, problem := admission.ParseDuration(value); problem {
	case admission.DurationFine:
		return d, deadlineGo, !text.HasPrefix(value, "-")
	case admission.DurationHuge:
		return admission.MaxDuration, deadlineGo, true
	case admission.DurationNegative:
		return 0, deadlineGo, false
	}
	d, ok = parseGRPCTimeout(value)
	return d, deadlineGRPC, ok
}

// parseGRPCTimeout reads 1 to 8 digits and a unit, as gRPC over HTTP/2 defines grpc-timeout.
func parseGRPCTimeout(value string) (d admission.Duration, ok bool) {
	digits, unit := text.CutDigits(value)
	if len(digits) < 1 || len(digits) > 8 || len(unit) != 1 {
		return 0, false
	}
	i := text.IndexByte(grpcUnits, unit[0])
	if i < 0 {
		return 0, false
	}
	return saturate(digits, grpcUnitSizes[i]), true
}

// saturate is digits * unit, or admission.MaxDuration where that is more.
func saturate(digits string, unit admission.Duration) admission.Duration {
	n, ok := text.ParseDigits(digits, int64(admission.MaxDuration/unit))
	if !ok {
		return admission.MaxDuration
	}
	return admission.Duration(n) * unit
}

// AppendDeadline appends what is left of a deadline to dst, in the form in which it came as original in that header:
// milliseconds, a Go duration in milliseconds ("3700ms"), or gRPC's form in the finest unit that 8 digits hold, from
// milliseconds up in grpc-timeout, and in any other header from microseconds up without milliseconds, whose "m" would
// mean minutes there. What is left is rounded down, but never to 0: less than 1 ms is 1 ms. 0 or less is 0.
// An original that is malformed counts as milliseconds (gRPC's form in grpc-timeout).
func AppendDeadline(dst []byte, header, original string, remaining admission.Duration) []byte {
	if remaining > 0 {
		remaining = max(remaining, admission.Millisecond)
	}
	remaining = max(remaining, 0)
	_, form, ok := parseDeadline(header, original)
	switch {
	case header == "grpc-timeout":
		return appendGRPCTimeout(dst, remaining, "mSMH")
	case ok && form == deadlineGRPC:
		return appendGRPCTimeout(dst, remaining, "uSMH")
	case ok && form == deadlineGo:
		return append(strconv.AppendInt(dst, int64(remaining/admission.Millisecond), 10), "ms"...)
	}
	return strconv.AppendInt(dst, int64(remaining/admission.Millisecond), 10)
}

// appendGRPCTimeout renders d in the first of units in which it has at most 8 digits.
func appendGRPCTimeout(dst []byte, d admission.Duration, units string) []byte {
	const most = 99_999_999
	for i := range len(units) {
		n := d / grpcUnitSizes[text.IndexByte(grpcUnits, units[i])]
		if n <= most {
			return append(strconv.AppendInt(dst, int64(n), 10), units[i])
		}
	}
	return dst // not reached: a admission.Duration in hours has at most 7 digits
}

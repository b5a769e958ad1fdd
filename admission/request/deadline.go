package request

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/internal/text"
)

// MaxDeadline is the greatest deadline, about 73 years. It can be added to any time without overflow.
const MaxDeadline admission.Duration = 1 << 61

// A deadlineFormat is a way to write a deadline.
type deadlineFormat uint8

const (
	deadlineMillis  deadlineFormat = iota // digits alone: milliseconds
	deadlineGRPC                          // 1 to 8 digits and one of H M S m u n
	deadlineGo                            // a Go duration: "10s", "1.5s", "250ms"
	deadlineSeconds                       // digits, perhaps with a fraction: seconds
)

// grpcUnits are the units of the gRPC format.
const grpcUnits = "HMSmun"

var grpcUnitSizes = [len(grpcUnits)]admission.Duration{
	admission.Hour, admission.Minute, admission.Second, admission.Millisecond, admission.Microsecond, 1,
}

// ParseDeadline reads the value of a deadline header: how long the client waits from now on. ok is false if the value
// is malformed or negative. 0 is valid and means that the deadline is past. Spaces around the value are ignored. A
// value above MaxDeadline becomes MaxDeadline.
//
// grpc-timeout, the one standard header, is always in gRPC's format. Any other header holds one of
//   - milliseconds: digits alone, without a fraction; or, if the header is configured so, seconds, with a fraction or
//     without;
//   - a Go duration: "10s", "250ms";
//   - gRPC's format, where the value is no Go duration. So "5m" is 5 minutes here, and 5 milliseconds in grpc-timeout.
func ParseDeadline(header *config.DeadlineHeader, value string) (d admission.Duration, ok bool) {
	d, _, ok = parseDeadline(header, value)
	return min(d, MaxDeadline), ok
}

// parseDeadline is ParseDeadline without the bound. It also returns the value's format.
func parseDeadline(header *config.DeadlineHeader, value string) (d admission.Duration, format deadlineFormat, ok bool) {
	value = text.Trim(value, " \t")
	if header.Name == "grpc-timeout" {
		d, ok = parseGRPCTimeout(value)
		return d, deadlineGRPC, ok
	}
	if header.Seconds {
		if d, ok = parseSeconds(value); ok {
			return d, deadlineSeconds, true
		}
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

// saturate returns digits * unit, or admission.MaxDuration if that is less.
func saturate(digits string, unit admission.Duration) admission.Duration {
	n, ok := text.ParseDigits(digits, int64(admission.MaxDuration/unit))
	if !ok {
		return admission.MaxDuration
	}
	return admission.Duration(n) * unit
}

// AppendDeadline appends the rest of a deadline to dst, as a value for the header in which original came. It has the
// format of original:
//   - milliseconds, or seconds with three digits of a fraction;
//   - a Go duration in milliseconds, "3700ms";
//   - gRPC's format, in the finest unit in which the number has at most 8 digits. grpc-timeout has no unit below
//     milliseconds here. Any other header has microseconds and no milliseconds, since "m" means minutes there.
//
// The rest is rounded down, but not to 0: less than 1 ms becomes 1 ms. 0 or less becomes 0. A malformed original counts
// as milliseconds, and in grpc-timeout as gRPC's format.
func AppendDeadline(dst []byte, header *config.DeadlineHeader, original string, remaining admission.Duration) []byte {
	if remaining > 0 {
		remaining = max(remaining, admission.Millisecond)
	}
	remaining = max(remaining, 0)
	_, format, ok := parseDeadline(header, original)
	switch {
	case header.Name == "grpc-timeout":
		return appendGRPCTimeout(dst, remaining, "mSMH")
	case ok && format == deadlineGRPC:
		return appendGRPCTimeout(dst, remaining, "uSMH")
	case ok && format == deadlineGo:
		return text.Put(strconv.AppendInt(dst, int64(remaining/admission.Millisecond), 10), "ms")
	case ok && format == deadlineSeconds:
		dst = strconv.AppendInt(dst, int64(remaining/admission.Second), 10)
		thousandths := strconv.Itoa(1000 + int(remaining%admission.Second/admission.Millisecond))
		return text.Put(text.Put(dst, "."), thousandths[1:])
	}
	return strconv.AppendInt(dst, int64(remaining/admission.Millisecond), 10)
}

// appendGRPCTimeout appends d in the first of units in which it has at most 8 digits.
//
//go:noinline // many bytes in two places
func appendGRPCTimeout(dst []byte, d admission.Duration, units string) []byte {
	const most = 99_999_999
	for i := range len(units) {
		n := d / grpcUnitSizes[text.IndexByte(grpcUnits, units[i])]
		if n <= most {
			return append(strconv.AppendInt(dst, int64(n), 10), units[i])
		}
	}
	return dst // not reached: a Duration in hours has at most 7 digits
}

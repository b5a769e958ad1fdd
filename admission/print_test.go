package admission_test

import (
	"fmt"

	"github.com/headgate/headgate/admission"
)

var kindNames = [...]string{"acquire", "release", "cancel", "expire", "sync", "tend", "retire"}

var verdictNames = [...]string{"done", "granted", "waiting", "full", "closed", "open", "stale", "fenced", "busy"}

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func describe(op *admission.Op) string {
	return fmt.Sprintf("%s by worker %d at %d ms (seq %d tenant %d limit %d queue %d)", kindNames[op.Kind], op.Me.Seat,
		op.Now/int64(admission.Millisecond), op.Seq, op.Tenant, op.Limit, op.Queue)
}

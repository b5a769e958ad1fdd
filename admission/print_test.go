package admission_test

import (
	"fmt"

	"github.com/headgate/headgate/admission"
)

var kindNames = [...]string{
	admission.OpAcquire:   "acquire",
	admission.OpRelease:   "release",
	admission.OpCancel:    "cancel",
	admission.OpExpire:    "expire",
	admission.OpReconcile: "reconcile",
	admission.OpMaintain:  "maintain",
	admission.OpReport:    "report",
	admission.OpTell:      "tell",
	admission.OpRetire:    "retire",
	admission.OpRetune:    "retune",
}

var verdictNames = [...]string{
	admission.VerdictDone:      "done",
	admission.VerdictGranted:   "granted",
	admission.VerdictWaiting:   "waiting",
	admission.VerdictFull:      "full",
	admission.VerdictClosed:    "closed",
	admission.VerdictOpen:      "open",
	admission.VerdictRecalling: "recalling",
	admission.VerdictStale:     "stale",
	admission.VerdictFenced:    "fenced",
	admission.VerdictBusy:      "busy",
}

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func describe(op *admission.Op) string {
	return fmt.Sprintf("%s by worker %d at %d ms (seq %d tenant %d limit %d queue %d)", kindNames[op.Kind], op.Me.Seat,
		op.Now/int64(admission.Millisecond), op.Seq, op.Tenant, op.Limit, op.Queue)
}

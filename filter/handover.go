package filter

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
)

// An inheritance is what an attempt knows from its invocation.
type inheritance uint8

const (
	inheritedNothing    inheritance = iota // no invocation stage has seen the request
	inheritedUngoverned                    // one has let it pass untouched
	inheritedGoverned                      // one has found out its identity and deadline
)

// handoverKey is the filter state in which the invocation stage tells the attempts what it found out. No client can set
// filter state, as it could set headers.
const handoverKey = "headgate.invocation"

// The handed-over bytes. Numbers are little endian.
//
//	1 byte   handoverVersion
//	1 byte   handoverUngoverned, handoverGoverned or handoverPending
//	8 bytes  the deadline
//	then for each dimension
//	2 bytes  the length of its value
//	         the value
const (
	handoverVersion = 1
	handoverHead    = 10 // the length up to the dimensions

	handoverUngoverned = 0
	handoverGoverned   = 1
	handoverPending    = 2 // governed, and in shadow the model is still to come with the body
)

// handOver tells the attempts of this request what the invocation stage found out.
func (s *stream) handOver(governed bool) {
	p := s.plugin
	if p.cfg.Stage != config.StageInvocation {
		return
	}
	b := append(p.out[:0], handoverVersion, handoverUngoverned)
	switch {
	case governed && s.body != nil:
		b[1] = handoverPending
	case governed:
		b[1] = handoverGoverned
	}
	b = abi.AppendUint64(b, uint64(s.deadline))
	for d := range s.dims {
		v := s.kept(s.dims[d])
		b = put(append(b, byte(len(v)), byte(len(v)>>8)), view(v))
	}
	p.out = b
	abi.SetProperty(handoverKey, b)
}

// inherit reads in an attempt what the invocation stage found out.
func (s *stream) inherit() {
	if s.plugin.cfg.Stage != config.StageAttempt {
		return
	}
	b, status := abi.Property(handoverKey)
	if status != abi.StatusOK || len(b) < handoverHead || b[0] != handoverVersion {
		return
	}
	state := b[1]
	if state == handoverUngoverned {
		s.inherited = inheritedUngoverned
		return
	}
	deadline := abi.Uint64(b[2:])
	b = b[handoverHead:]
	for d := range s.dims {
		if len(b) < 2 {
			return
		}
		n := int(b[0]) | int(b[1])<<8
		if b = b[2:]; len(b) < n {
			return
		}
		s.dims[d] = s.keepRaw(b[:n])
		b = b[n:]
	}
	s.inherited, s.deadline, s.modelPending = inheritedGoverned, int64(deadline), state == handoverPending
	attempt, _ := abi.Integer("upstream\x00request_attempt_count")
	s.attempt = int64(attempt)
}

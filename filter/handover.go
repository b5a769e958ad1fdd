package filter

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
)

// An inheritance is what an attempt learned from its invocation.
type inheritance uint8

const (
	inheritedNothing    inheritance = iota // no invocation stage has seen the request
	inheritedUngoverned                    // it has, and let it pass untouched
	inheritedGoverned                      // it has; the request's identity and deadline are known
)

// handoverKey is the filter state through which the invocation stage tells the attempts what it found: filter state
// is out of every client's reach, as headers are not.
const handoverKey = "headgate.invocation"

// handoverVersion starts the handed-over bytes. They are, little endian: the version in 1 byte; in 1 byte what was found (0:
// ungoverned, 1: governed, 2: governed, and in shadow the model is still to come); the deadline in 8; then for each dimension
// the length of its value in 2, and the value.
const handoverVersion = 1

const handoverHead = 10

// handOver tells the attempts of this request what the invocation stage found.
func (s *stream) handOver(governed bool) {
	p := s.plugin
	if p.cfg.Stage != config.StageInvocation {
		return
	}
	b := append(p.out[:0], handoverVersion, 0)
	switch {
	case governed && s.body != nil:
		b[1] = 2
	case governed:
		b[1] = 1
	}
	b = abi.AppendUint64(b, uint64(s.deadline))
	for d := range s.dims {
		v := s.kept(s.dims[d])
		b = append(append(b, byte(len(v)), byte(len(v)>>8)), v...)
	}
	p.out = b
	abi.SetProperty(handoverKey, b)
}

// inherit reads what the invocation stage found, in an attempt.
func (s *stream) inherit() {
	if s.plugin.cfg.Stage != config.StageAttempt {
		return
	}
	b, status := abi.Property(handoverKey)
	if status != abi.StatusOK || len(b) < handoverHead || b[0] != handoverVersion {
		return
	}
	state := b[1]
	if state == 0 {
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
	s.inherited, s.deadline, s.modelPending = inheritedGoverned, int64(deadline), state == 2
	attempt, _ := abi.Integer("upstream\x00request_attempt_count")
	s.attempt = int64(attempt)
}

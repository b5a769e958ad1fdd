package wasmtest_test

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// stage is a host with a guest that the test controls, the puppet. The test gives one script, a Go function, for a
// callback; it runs as if it were the guest's code.
type stage struct {
	*wasmtest.Host
	t       *testing.T
	scripts map[string]func(*puppet) uint32
	running map[uint32]func([]byte) ([]byte, bool)
	last    uint32
	// calls lists the callbacks as "w0 tick(1)", in order.
	calls []string
}

// newStage starts a host and loads one plugin. Scripts not set agree to everything.
func newStage(t *testing.T, options ...wasmtest.Option) (*stage, *wasmtest.Plugin) {
	t.Helper()
	s := emptyStage(t, options...)
	p, err := s.Load(wasmtest.PluginConfig{Name: "puppet", Configuration: []byte("strings")})
	require.NoError(t, err)
	return s, p
}

func emptyStage(t *testing.T, options ...wasmtest.Option) *stage {
	t.Helper()
	s := &stage{t: t, scripts: map[string]func(*puppet) uint32{}, running: map[uint32]func([]byte) ([]byte, bool){}}
	s.Host = wasmtest.Start(t, puppetModule, options...)
	s.SetForeignFunction("puppet", s.pull)
	return s
}

// on sets the script of a callback.
func (s *stage) on(callback string, script func(*puppet) uint32) { s.scripts[callback] = script }

// do sets a script that returns what lets things go on.
func (s *stage) do(callback string, script func(*puppet)) {
	s.on(callback, func(p *puppet) uint32 { script(p); return agreement(callback) })
}

func agreement(callback string) uint32 {
	switch callback {
	case "vm_start", "configure", "done":
		return 1
	}
	return 0
}

// pull is what the guest calls: a new callback, or the result of an order.
func (s *stage) pull(vm *wasmtest.VM, message []byte) ([]byte, wasmtest.Status) {
	if message[0] == '=' {
		id := binary.LittleEndian.Uint32(message[1:])
		order, more := s.running[id](message[5:])
		if !more {
			delete(s.running, id)
		}
		return order, wasmtest.StatusOk
	}
	name, numbers, _ := strings.Cut(string(message[1:]), "\x00")
	p := &puppet{stage: s, VM: vm, Callback: name}
	for b := []byte(numbers); len(b) > 0; b = b[4:] {
		p.Args = append(p.Args, binary.LittleEndian.Uint32(b))
	}
	s.note(p)
	script := s.scripts[name]
	if script == nil {
		script = func(*puppet) uint32 { return agreement(name) }
	}
	s.last++
	p.id = s.last
	next, _ := iter.Pull(func(yield func([]byte) bool) {
		p.yield = yield
		result := script(p)
		yield(append(p.order(opReturn), binary.LittleEndian.AppendUint32(nil, result)...))
	})
	resume := func(result []byte) ([]byte, bool) {
		p.result = result
		return next()
	}
	s.running[p.id] = resume
	order, _ := resume(nil)
	return order, wasmtest.StatusOk
}

// sprintf is fmt.Sprintf.
var sprintf = fmt.Sprintf

func (s *stage) note(p *puppet) {
	s.calls = append(s.calls, p.VM.Worker().Name()+" "+p.Callback+strings.ReplaceAll(fmt.Sprint(p.Args), " ", ","))
}

// puppet is the guest in one callback, as its script sees it. Each method is a host call.
type puppet struct {
	stage    *stage
	VM       *wasmtest.VM
	Callback string
	Args     []uint32
	id       uint32
	yield    func([]byte) bool
	result   []byte
}

// ID is the context the callback is for.
func (p *puppet) ID() uint32 { return p.Args[0] }

const (
	opReturn = iota
	opLog
	opGetProperty
	opSetProperty
	opGetHeader
	opAddHeader
	opReplaceHeader
	opRemoveHeader
	opGetPairs
	opSetPairs
	opGetHeaderSize
	opGetBuffer
	opSetBuffer
	opContinue
	opClose
	opReply
	opGetData
	opSetData
	opRegister
	opResolve
	opEnqueue
	opDequeue
	opTick
	opTime
	opEffective
	opDone
	opDefine
	opIncrement
	opRecord
	opMetric
	opHTTPCall
	opStatus
	opLogLevel
	opClock
	opRandom
	opPanic
	opWait
	opPrint
	opForeign
	opBufferStatus
	opSleep
	opExit
)

func (p *puppet) order(op byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, p.id), op)
}

// answer is the result of a host call.
type answer struct {
	Status wasmtest.Status
	N      uint64
	B      string
}

// call gives one order. Numbers are ints of any kind, byte strings are strings.
func (p *puppet) call(op byte, args ...any) answer {
	order := p.order(op)
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			order = append(binary.LittleEndian.AppendUint64(order, uint64(len(v))), v...)
		case int:
			order = binary.LittleEndian.AppendUint64(order, uint64(v))
		case uint32:
			order = binary.LittleEndian.AppendUint64(order, uint64(v))
		case uint64:
			order = binary.LittleEndian.AppendUint64(order, v)
		default:
			panic(fmt.Sprint(v))
		}
	}
	p.yield(order)
	return answer{
		Status: wasmtest.Status(binary.LittleEndian.Uint32(p.result)),
		N:      binary.LittleEndian.Uint64(p.result[4:]),
		B:      string(p.result[12:]),
	}
}

// must is call that wants Ok.
func (p *puppet) must(op byte, args ...any) answer {
	a := p.call(op, args...)
	require.Equal(p.stage.t, wasmtest.StatusOk, a.Status, "op %d %v in %s", op, args, p.Callback)
	return a
}

func (p *puppet) get(key string) answer            { return p.call(opGetData, key) }
func (p *puppet) header(kind int, n string) answer { return p.call(opGetHeader, kind, n) }
func (p *puppet) set(key, value string, cas uint64) wasmtest.Status {
	return p.call(opSetData, key, value, cas).Status
}

// reply is a local reply to stream id.
func (p *puppet) reply(id uint32, code int, body string) {
	p.must(opEffective, id)
	p.must(opReply, code, "because", body, "", -1)
	p.must(opEffective, 0)
}

// resume continues the request of stream id.
func (p *puppet) resume(id uint32) {
	p.must(opEffective, id)
	p.must(opContinue, 0)
	p.must(opEffective, 0)
}

package rig

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"time"
)

// packetBits is how many bits of a Moment's order say where in its packet it is.
const packetBits = 20

// A packet is one TCP segment to or from the watched port.
type packet struct {
	order    int64 // of its first byte
	at       time.Time
	toServer bool
	client   uint16 // the port at the other end
	seq      uint32
	syn, end bool // end: FIN or RST
	reset    bool
	payload  []byte
}

// parsePacket reads an IPv4 packet; ok is false if it is none of the port's.
func parsePacket(ip []byte, port uint16) (p packet, ok bool) {
	const tcp, tcpHead = 6, 20
	if len(ip) < 20 || ip[0]>>4 != 4 || ip[9] != tcp {
		return packet{}, false
	}
	head := int(ip[0]&15) * 4
	total := min(int(binary.BigEndian.Uint16(ip[2:])), len(ip))
	if total < head+tcpHead {
		return packet{}, false
	}
	segment := ip[head:total]
	source, target := binary.BigEndian.Uint16(segment), binary.BigEndian.Uint16(segment[2:])
	offset := int(segment[12]>>4) * 4
	if source != port && target != port || offset > len(segment) {
		return packet{}, false
	}
	flags := segment[13]
	p = packet{toServer: target == port, client: source, seq: binary.BigEndian.Uint32(segment[4:]),
		syn: flags&2 != 0, end: flags&5 != 0, reset: flags&4 != 0, payload: slices.Clone(segment[offset:])}
	if !p.toServer {
		p.client = target
	}
	return p, true
}

// A flow is the bytes of one direction of a connection, and which of them came in which packet.
type flow struct {
	data  []byte
	parts []part
	next  uint32 // the sequence number behind data
	begun bool
	held  []packet // that came before what stands in front of them
	end   *Moment  // its FIN or RST
	reset bool
}

// A part is the bytes of one packet.
type part struct {
	from   int // index of the first in data
	moment Moment
}

// take adds a packet.
func (f *flow) take(p packet) {
	if p.syn {
		f.next, f.begun = p.seq+1, true
	}
	if p.end && f.end == nil {
		f.end, f.reset = &Moment{p.order + int64(len(p.payload)), p.at}, p.reset
	}
	if !f.begun || len(p.payload) == 0 {
		return
	}
	f.held = append(f.held, p)
	for f.takeHeld() {
	}
}

// takeHeld adds the bytes of one held packet that the data goes on with. What was sent again is dropped.
func (f *flow) takeHeld() bool {
	for i, p := range f.held {
		behind := int32(f.next - p.seq)
		if behind < 0 {
			continue
		}
		f.held = slices.Delete(f.held, i, i+1)
		if fresh := len(p.payload) - int(behind); fresh > 0 {
			f.parts = append(f.parts, part{len(f.data), Moment{p.order + int64(behind), p.at}})
			f.data = append(f.data, p.payload[behind:]...)
			f.next += uint32(fresh)
		}
		return true
	}
	return false
}

// moment is when the byte with this index was sent.
func (f *flow) moment(index int) Moment {
	i := sort.Search(len(f.parts), func(i int) bool { return f.parts[i].from > index }) - 1
	at := f.parts[i]
	return Moment{at.moment.Order + int64(index-at.from), at.moment.At}
}

// A conversation is both directions of a connection.
type conversation struct {
	request, answer flow
}

// conversations puts packets together.
func conversations(packets []packet) ([]*conversation, error) {
	open := map[uint16]*conversation{}
	var all []*conversation
	for _, p := range packets {
		c := open[p.client]
		if c == nil || p.syn && p.toServer {
			c = &conversation{}
			open[p.client] = c
			all = append(all, c)
		}
		if p.toServer {
			c.request.take(p)
		} else {
			c.answer.take(p)
		}
	}
	for _, c := range all {
		if len(c.request.held) > 0 || len(c.answer.held) > 0 || !c.request.begun {
			return nil, fmt.Errorf("some of %d are missing", len(packets))
		}
	}
	return all, nil
}

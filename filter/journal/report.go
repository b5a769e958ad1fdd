package journal

// A report is
//
//	1 byte   reportVersion
//	8 bytes  the id of the context, 8 of its VM; 0: it has decided no requests
//	8 bytes  when it was made
//	4 bytes  the length of the tenants, 4 of the waits
//	         the tenants: each a hash and a name
//	         the waits
//	         the events: each its length in 2 bytes and its bytes
const (
	reportVersion = 1
	reportHead    = 33

	mostReport      = 64 << 10 // bytes
	mostTenantBytes = 16 << 10
	mostWaitBytes   = 20 << 10
)

// A Report is a report as it was read. It is valid as long as its bytes.
type Report struct {
	_ incomparable

	ID, VM  uint64
	At      int64
	Tenants []byte
	Waits   []byte
	Events  []byte
}

func (j *Journal) appendReport(
	dst []byte, from *place, now int64, since uint32, eachTenant func(func(uint64)),
) []byte {
	dst = append(dst, reportVersion)
	dst = put64(put64(put64(dst, from.id), from.vm), uint64(now))
	lengths := len(dst)
	dst = put64(dst, 0)
	begin := len(dst)
	dst = j.appendTenants(dst, uint32(now), eachTenant)
	tenants := len(dst) - begin
	dst = j.appendWaits(dst, now, mostWaitBytes)
	put32(dst[:lengths], uint32(tenants))
	put32(dst[:lengths+4], uint32(len(dst)-begin-tenants))
	return j.appendEvents(dst, since, mostReport-len(dst))
}

// appendTenants appends the names that are wanted and known, each once. mark is another one in each report.
func (j *Journal) appendTenants(dst []byte, mark uint32, eachTenant func(func(uint64))) []byte {
	end := len(dst) + mostTenantBytes
	eachTenant(func(hash uint64) {
		t := j.tenants.find(hash)
		if t == nil || t.asked == mark || len(dst)+9+mostName > end {
			return
		}
		t.asked = mark
		dst = putText(put64(dst, hash), view(t.name[:t.n]))
	})
	return dst
}

// Read reads a report; false: b is none.
func (r *Report) Read(b []byte) bool {
	if len(b) < reportHead || b[0] != reportVersion {
		return false
	}
	r.ID, r.VM, r.At = get64(b[1:]), get64(b[9:]), int64(get64(b[17:]))
	tenants, waits := uint64(get32(b[25:])), uint64(get32(b[29:]))
	if b = b[reportHead:]; uint64(len(b)) < tenants+waits {
		return false
	}
	r.Tenants, r.Waits, r.Events = b[:tenants], b[tenants:tenants+waits], b[tenants+waits:]
	return true
}

// EachTenant calls f with the names of tenants in a report.
func (r *Report) EachTenant(f func(hash uint64, name string)) {
	for b := r.Tenants; len(b) > 8; {
		name, rest, ok := cutText(b[8:])
		if !ok {
			return
		}
		f(get64(b), name)
		b = rest
	}
}

// EachEvent calls f with the bytes of each event in a report.
func (r *Report) EachEvent(f func(event []byte)) {
	for b := r.Events; len(b) >= 2; {
		n := int(b[0]) | int(b[1])<<8
		if len(b) < 2+n {
			return
		}
		f(b[2 : 2+n])
		b = b[2+n:]
	}
}

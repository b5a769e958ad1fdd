package journal

// tenants has the names of tenants by their hashes: of those that came last. Two places are looked at for each, so that
// two tenants whose hashes begin alike are both known.
type tenants struct {
	_ incomparable

	all []tenantName // nil until a name comes
}

const (
	tenantPlaces = 1024
	mostName     = 128 // config.MaxValue
)

type tenantName struct {
	hash  uint64 // 0: free
	asked uint32 // the report that has it
	n     uint8
	name  [mostName]byte
}

// TenantSeen remembers a tenant's name. It is called for each request of a pool that is fair by tenant.
func (j *Journal) TenantSeen(hash uint64, name []byte) {
	t := &j.tenants
	if len(t.all) == 0 {
		t.all = make([]tenantName, tenantPlaces)
	}
	first, second := t.places(hash)
	switch {
	case first.hash == hash || second.hash == hash:
		return
	case first.hash != 0 && second.hash == 0:
		first = second
	}
	first.hash, first.asked = hash, 0
	first.n = uint8(copy(first.name[:], name))
}

func (t *tenants) places(hash uint64) (first, second *tenantName) {
	return &t.all[hash%tenantPlaces], &t.all[hash>>32%tenantPlaces]
}

// find returns the entry of a tenant; nil: its name is not known.
func (t *tenants) find(hash uint64) *tenantName {
	if len(t.all) == 0 {
		return nil
	}
	first, second := t.places(hash)
	switch hash {
	case first.hash:
		return first
	case second.hash:
		return second
	}
	return nil
}

package top

import (
	"cmp"
	"slices"
	"strings"
)

// A row is a key in the table.
type row struct {
	pool    *Pool
	key     *Key
	finding finding
}

// A place names a key, over all refreshes.
type place struct{ pool, key string }

func (r row) place() place { return place{r.pool.Name, r.key.Name} }

// isOnlyKey reports whether the pool has no keys to tell apart.
func (r row) isOnlyKey() bool { return len(r.pool.Dimensions) == 0 }

// name is what the row's limit is of: model/gpt-4o, or gateway.
func (r row) name() string {
	if r.isOnlyKey() {
		return shown(r.pool.Name)
	}
	return shown(r.pool.Name) + "/" + shown(r.key.Name)
}

// An order is how the rows are sorted.
type order struct {
	name    string // as the screen says it
	column  string // the column that carries the mark
	compare func(a, b row) int
}

// orders are those that there are, in the order in which a key press goes through them.
var orders = []order{
	{"trouble", "", func(a, b row) int {
		return cmp.Or(cmp.Compare(b.finding.trouble, a.finding.trouble), b.key.Queued-a.key.Queued,
			cmp.Compare(b.fullness(), a.fullness()))
	}},
	{"name", "POOL", func(row, row) int { return 0 }},
	{"limit", "LIMIT", func(a, b row) int { return b.key.Limit - a.key.Limit }},
	{"running", "RUN", func(a, b row) int { return b.key.Inflight - a.key.Inflight }},
	{"queued", "QUEUED", func(a, b row) int { return b.key.Queued - a.key.Queued }},
	{"oldest wait", "OLDEST", func(a, b row) int { return cmp.Compare(b.key.OldestWaitMillis, a.key.OldestWaitMillis) }},
}

// fullness is how much of a key's limit is taken.
func (r row) fullness() float64 {
	if r.key.Limit == 0 {
		return 0
	}
	return float64(r.key.Inflight+r.key.OnHold) / float64(r.key.Limit)
}

// rowsOf are the rows of a state that hold the filter's text, sorted. The filter looks at pools, keys and tenants,
// whatever the case of their letters.
func rowsOf(state *State, by order, backwards bool, filter string) []row {
	filter = strings.ToLower(filter)
	rows := []row{}
	for _, pool := range state.Pools {
		for _, key := range pool.Keys {
			r := row{pool: pool, key: key}
			if !r.holds(filter) {
				continue
			}
			r.finding = why(pool, key)
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		if n := by.compare(a, b); n != 0 {
			if backwards {
				return -n
			}
			return n
		}
		n := cmp.Or(strings.Compare(a.pool.Name, b.pool.Name), strings.Compare(a.key.Name, b.key.Name))
		if backwards && by.name == "name" {
			return -n
		}
		return n
	})
	return rows
}

func (r row) holds(filter string) bool {
	if filter == "" {
		return true
	}
	has := func(name string) bool {
		return strings.Contains(strings.ToLower(name), filter) || strings.Contains(strings.ToLower(shown(name)), filter)
	}
	if has(r.pool.Name) || has(r.key.Name) || has(r.pool.Name+"/"+r.key.Name) {
		return true
	}
	for _, tenant := range r.key.Tenants {
		if has(tenant.Tenant) {
			return true
		}
	}
	return false
}

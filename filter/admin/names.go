package admin

import "github.com/headgate/headgate/filter/journal"

// names are the names of tenants by their hashes, as the workers report them. It is a table of its own: a map of Go's
// would make the module larger by 15 KB.
type names struct {
	all  []tenant // a power of two
	used int
}

type tenant struct {
	hash uint64 // 0: free
	name string // a view of a report
}

const (
	namePlaces = 1 << 12
	mostNames  = namePlaces / 2
)

// learn takes over what the reports say.
func (n *names) learn(a *journal.Asker) {
	if n.all == nil {
		n.all = make([]tenant, namePlaces)
	}
	clear(n.all)
	n.used = 0
	a.EachReport(func(r *journal.Report) {
		r.EachTenant(func(hash uint64, name string) {
			if t := n.at(hash); t.hash == 0 && hash != 0 && n.used < mostNames {
				*t = tenant{hash, name}
				n.used++
			}
		})
	})
}

// at is the place of a tenant, which is free if it is not known.
func (n *names) at(hash uint64) *tenant {
	i := hash
	for n.all[i%namePlaces].hash != hash && n.all[i%namePlaces].hash != 0 {
		i++
	}
	return &n.all[i%namePlaces]
}

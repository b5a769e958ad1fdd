package admin

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/journal"
	"github.com/headgate/headgate/filter/records"
)

// setLimit carries out a change of a limit, for all workers at once.
func (s *Stage) setLimit(c config.LimitChange) *failure {
	o := s.pool(c.Pool)
	if o == nil {
		return &failure{404, "pool", "pool: there is no pool " + printable(c.Pool)}
	}
	var change records.Change
	var what records.Retuning
	key := c.Key
	if c.HasKey {
		change, what = s.records.Retune(o.Pool, c.Key, c.Limit, !c.Reset)
	} else {
		if len(o.Key) == 0 {
			key = o.Name
		}
		change, what = s.records.RetuneDefault(o.Pool, c.Limit, !c.Reset)
	}
	switch what {
	case records.NoSuchKey:
		return &failure{404, "key", "key: no request has asked for it, and the configuration does not name it"}
	case records.TooMany:
		return &failure{409, "key", "key: as many keys of the pool have a limit of their own already as may have one " +
			"(256): give some back with null"}
	case records.NotRetuned:
		return &failure{503, "", "the limit could not be stored: try again"}
	}
	e := journal.Event{Kind: journal.LimitChanged, At: abi.WallMillis(), Pool: o.Name, Key: key,
		Before: change.Before, Limit: change.Limit, Source: uint8(change.Source)}
	s.log.add(s.cfg.Domain, &e)
	return nil
}

// writeChanged writes the new state of what was changed: of the key, or of the pool without its keys.
func (s *Stage) writeChanged(q *query) {
	o := s.pool(q.pool)
	if q.hasKey {
		var k records.KeyState
		if s.records.LookAt(o.Pool, q.key, &k) {
			s.writeKey(o, &k)
			return
		}
	}
	abi.HandOver()
	waits := s.gatherWaits()
	for i := range s.pools {
		if s.pools[i] == o {
			s.out.raw("{")
			s.writePool(o, waits[i])
			s.out.raw("}")
		}
	}
}

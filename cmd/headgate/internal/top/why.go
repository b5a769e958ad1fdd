package top

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// A trouble says how much a key needs somebody's eye.
type trouble int

const (
	troubleNone    trouble = iota
	troubleFull            // all permits are taken, or less can be used than the limit says
	troubleWaiting         // requests wait
	troubleRefuses         // the next request is refused
)

// A finding is why a key is as it is.
type finding struct {
	trouble trouble
	text    string // "": there is nothing to say
}

// why says in a sentence what keeps a key's requests from running, and whether that is the provider or the limit.
func why(pool *Pool, key *Key) finding {
	switch {
	case key.Breaker == adminapi.BreakerOpen:
		return broken(pool, key)
	case key.Breaker == adminapi.BreakerHalfOpen:
		return finding{troubleRefuses, "provider: breaker half open, one request tries whether it answers again"}
	case key.Limit == 0:
		return finding{troubleRefuses, "shut: the limit is 0, every request is refused"}
	case key.Usable < key.Limit:
		return reduced(pool, key)
	case key.Inflight+key.OnHold >= key.Limit:
		return full(pool, key)
	case key.Queued > 0:
		return finding{troubleWaiting, fmt.Sprintf("permits are free: %d that wait get them now", key.Queued)}
	}
	if key.Source == adminapi.SourceOverride && key.Limit != key.Configured {
		return finding{troubleNone, fmt.Sprintf("limit changed by hand, the configuration has %d", key.Configured)}
	}
	return finding{}
}

// broken is the finding about a key whose breaker is open. Those that wait at it may have to give up before the next
// try.
func broken(pool *Pool, key *Key) finding {
	text := "provider: breaker open"
	if key.BreakerChangeMillis > 0 {
		text += ", next try in " + until(key.BreakerChangeMillis)
	}
	if key.Queued > 0 {
		text += "; " + waiters(key, "")
		if key.BreakerChangeMillis >= pool.MaxWaitMillis {
			text += ", the next try comes after their wait ends"
		}
	}
	return finding{troubleRefuses, text}
}

// full is the finding about a key whose permits are all taken.
func full(pool *Pool, key *Key) finding {
	f := finding{troubleFull, "full: " + holders(key)}
	named := ""
	if key.Inflight > 0 && len(key.Tenants) > 0 {
		named = key.Tenants[0].Tenant
	}
	if key.Inflight > key.Limit {
		named = ""
		f.text = fmt.Sprintf("%d over the limit: %d run, none is let in until fewer than %d do", key.Inflight-key.Limit,
			key.Inflight, key.Limit)
	}
	return f.withQueue(pool, key, named)
}

// withQueue adds what the state of the queue is. The text has named this tenant.
func (f finding) withQueue(pool *Pool, key *Key, named string) finding {
	switch {
	case pool.Queue > 0 && key.Queued >= pool.Queue*max(1, len(key.Shares)):
		return finding{troubleRefuses, f.text + fmt.Sprintf("; the queue of %d is full, the next gets 429", key.Queued)}
	case key.Queued > 0 && pool.Fair && len(key.Shares) < 2 && hasWholeShare(pool.Queue, key):
		whose := "whose"
		if most, _ := mostWaiting(key); most.Tenant == named {
			whose = "its"
		}
		return finding{troubleRefuses, fmt.Sprintf("%s; %s, %s next gets 429", f.text, waiters(key, named), whose)}
	case key.Queued > 0:
		return finding{max(f.trouble, troubleWaiting), f.text + "; " + waiters(key, named)}
	case pool.Queue == 0 && f.trouble >= troubleFull && key.Inflight+key.OnHold >= min(key.Limit, key.Usable):
		return finding{f.trouble, f.text + "; no queue, the next gets 429"}
	}
	return f
}

// reduced is the finding about a key of which headroom or a penalty leave less than the limit.
func reduced(pool *Pool, key *Key) finding {
	text := fmt.Sprintf("provider: after its failures only %d of %d permits can be used", key.Usable, key.Limit)
	change := key.PenaltyMillis
	if key.PenaltyMillis == 0 {
		text = fmt.Sprintf("provider: after its 429s only %d of %d permits can be used", key.Usable, key.Limit)
		change = key.HeadroomChangeMillis
	}
	if change > 0 {
		text += ", more in " + until(change)
	}
	return finding{troubleFull, text}.withQueue(pool, key, "")
}

// holders says who has a key's permits.
func holders(key *Key) string {
	parts := []string{}
	if key.Inflight > 0 && len(key.Tenants) > 0 {
		most := key.Tenants[0]
		switch {
		case most.Inflight == key.Limit && key.Limit > 1:
			parts = append(parts, fmt.Sprintf("%s runs all %d", brief(most.Tenant), key.Limit))
		default:
			parts = append(parts, fmt.Sprintf("%s runs %d of %d", brief(most.Tenant), most.Inflight, key.Limit))
		}
	} else if key.Inflight > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d run", key.Inflight, key.Limit))
	}
	if key.OnHold > 0 {
		hold := fmt.Sprintf("%d of %d on hold after their requests", key.OnHold, key.Limit)
		if key.HoldChangeMillis > 0 {
			hold += ", first back in " + until(key.HoldChangeMillis)
		}
		parts = append(parts, hold)
	}
	return strings.Join(parts, ", ")
}

// hasWholeShare reports whether the tenant who has most places in the queue may have no more: each may have as many as
// are free.
func hasWholeShare(queue int, key *Key) bool {
	most, known := mostWaiting(key)
	return known && most.Queued >= max(1, queue-key.Queued)
}

// mostWaiting is the tenant who has most requests in the queue.
func mostWaiting(key *Key) (most adminapi.Tenant, known bool) {
	for _, tenant := range key.Tenants {
		if tenant.Queued > most.Queued {
			most = tenant
		}
	}
	return most, most.Queued > 0
}

// waiters says how many wait, and who has most of them: "its", where the sentence has named the tenant.
func waiters(key *Key, named string) string {
	most, known := mostWaiting(key)
	whose := brief(most.Tenant) + "'s"
	if known && most.Tenant == named {
		whose = "its own"
	}
	switch {
	case !known && key.Queued == 1:
		return "1 waits"
	case !known:
		return fmt.Sprintf("%d wait", key.Queued)
	case key.Queued == 1:
		return "1 waits, " + whose
	case most.Queued == key.Queued && most.Tenant == named:
		return fmt.Sprintf("all %d that wait are its own", key.Queued)
	case most.Queued == key.Queued:
		return fmt.Sprintf("%d wait, all %s", key.Queued, whose)
	}
	return fmt.Sprintf("%d wait, %d of them %s", key.Queued, most.Queued, whose)
}

// brief is a tenant's name in a sentence.
func brief(name string) string { return cutMiddle(shown(name), 16) }

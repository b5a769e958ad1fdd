package adminapi

// A State is what all workers of one Envoy know, at one moment.
type State struct {
	NowMillis int64  `json:"now_ms"` // Unix time
	Domain    string `json:"domain"`
	Mode      string `json:"mode"`
	Workers   int    `json:"workers"`
	Next      string `json:"next,omitempty"` // where the next page begins
	Pools     []Pool `json:"pools"`
}

// A Pool is a rule with a limit, and its keys. Its figures are those of all its keys.
type Pool struct {
	Name          string            `json:"name"`
	Limit         int               `json:"limit"`      // the default limit in force
	Source        string            `json:"source"`     // where the limit comes from: config, override or fleet
	Configured    int               `json:"configured"` // the limit in the configuration
	Dimensions    []string          `json:"key"`
	Per           string            `json:"per"`
	Queue         int               `json:"queue"` // how many requests may wait for each key
	MaxWaitMillis int64             `json:"max_wait_ms"`
	Fair          bool              `json:"fair"`
	Holds         bool              `json:"holds"`
	Breaker       bool              `json:"breaker"`
	Inflight      int               `json:"inflight"`
	Queued        int               `json:"queued"`
	OnHold        int               `json:"on_hold"`
	KeysTotal     int               `json:"keys_total"`
	Outcomes      map[string]uint64 `json:"outcomes"`
	Waits         Waits             `json:"waits"`
	Keys          []Key             `json:"keys"`
}

// The sources of a limit.
const (
	SourceConfig   = "config"
	SourceOverride = "override"
	SourceFleet    = "fleet"
)

// Waits are how long requests waited that were admitted then, newest first. Slots without a request are left out.
type Waits struct {
	SlotMillis int64  `json:"slot_ms"`
	Slots      []Slot `json:"slots"`
}

// A Slot is the waits that ended in one span of time.
type Slot struct {
	AgeMillis int64 `json:"age_ms"`
	N         int   `json:"n"`
	P50       int64 `json:"p50_ms"`
	P90       int64 `json:"p90_ms"`
	P99       int64 `json:"p99_ms"`
}

// A Key has permits, a queue and holds of its own. The changes are how many milliseconds are left until then; 0: no
// change is due.
type Key struct {
	Name                 string   `json:"key"`
	Limit                int      `json:"limit"`
	Source               string   `json:"source"`
	Configured           int      `json:"configured"`
	Inflight             int      `json:"inflight"`
	Queued               int      `json:"queued"`
	OnHold               int      `json:"on_hold"`
	OldestWaitMillis     int64    `json:"oldest_wait_ms"`
	Breaker              string   `json:"breaker"`
	BreakerChangeMillis  int64    `json:"breaker_change_ms"`
	Usable               int      `json:"usable"` // what headroom and penalty leave of the limit
	HeadroomChangeMillis int64    `json:"headroom_change_ms"`
	PenaltyMillis        int64    `json:"penalty_ms"`
	HoldChangeMillis     int64    `json:"hold_change_ms"` // until the first hold ends
	Tenants              []Tenant `json:"tenants"`
	TenantsTotal         int      `json:"tenants_total"`
}

// The states of a breaker.
const (
	BreakerClosed   = "closed"
	BreakerOpen     = "open"
	BreakerHalfOpen = "half_open"
)

// A Tenant is who shares a key.
type Tenant struct {
	Tenant   string `json:"tenant"`
	Inflight int    `json:"inflight"`
	Queued   int    `json:"queued"`
	Weight   int    `json:"weight"`
}

// An Event is a decision that was no plain admission, a slow wait, a request's end, or a change. Fields that don't
// apply to its kind are zero.
type Event struct {
	ID             int64  `json:"id"`
	AtMillis       int64  `json:"at_ms"` // Unix time
	Kind           string `json:"kind"`
	Pool           string `json:"pool,omitempty"`
	Key            string `json:"key,omitempty"`
	Tenant         string `json:"tenant,omitempty"`
	Model          string `json:"model,omitempty"`
	Method         string `json:"method,omitempty"`
	Path           string `json:"path,omitempty"`
	Reason         string `json:"reason,omitempty"`
	WaitMillis     int64  `json:"wait_ms,omitempty"`
	DurationMillis int64  `json:"duration_ms,omitempty"`
	Whole          *bool  `json:"whole,omitempty"` // of a request's end: its answer was complete
	Status         int    `json:"status,omitempty"`
	Limit          int    `json:"limit,omitempty"`
	Before         int    `json:"before,omitempty"`
	Source         string `json:"source,omitempty"`
}

// Events are a part of what a listener remembers, oldest first.
type Events struct {
	Last   int64   `json:"last"` // the newest that there is
	Events []Event `json:"events"`
}

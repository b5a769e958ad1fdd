package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/cluster"
)

// mostShown bounds how many keys a state shows.
const mostShown = 4096

// A State is what is known of a domain.
type State struct {
	Domain   string         `json:"domain"`
	Now      int64          `json:"now_ms"`      // by Redis's clock
	Learning int64          `json:"learning_ms"` // for how long grants don't grow. 0: they do
	Replicas []ReplicaState `json:"replicas"`
	Pools    []KeyState     `json:"pools"`
	IsCut    bool           `json:"truncated,omitempty"` // there are more keys
}

// A ReplicaState is what is known of a replica.
type ReplicaState struct {
	Replica string `json:"replica"`
	Lease   int64  `json:"lease_ms"` // how much of its lease is left
}

// A KeyState is what is known of a key.
type KeyState struct {
	cluster.Key
	Limit    int64         `json:"limit"`
	Source   string        `json:"source"` // "config", or "override" when it was set by hand
	Granted  int64         `json:"granted"`
	Wanted   int64         `json:"wanted"`
	Replicas []HolderState `json:"replicas"`
}

// A HolderState is a replica's part of a key.
type HolderState struct {
	Replica string `json:"replica"`
	Granted int64  `json:"granted"`
	Wants   int64  `json:"wants"`
	Limit   int64  `json:"limit"` // by its configuration
	Lease   int64  `json:"lease_ms"`
}

// State returns what is known of a domain. Each key's part is consistent in itself.
func (s *Store) State(ctx context.Context, domain string) (*State, error) {
	var (
		meta, limits *redis.MapStringStringCmd
		live         *redis.ZSliceCmd
		index        *redis.StringSliceCmd
	)
	now, err := s.now(ctx, domain)
	if err != nil {
		return nil, err
	}
	from := &redis.ZRangeBy{Min: strconv.FormatInt(now+1, 10), Max: "+inf", Count: mostShown + 1}
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		meta, limits = p.HGetAll(ctx, key(domain, keyMeta)), p.HGetAll(ctx, key(domain, keyLimits))
		live = p.ZRangeByScoreWithScores(ctx, key(domain, keyLive), from)
		index = p.ZRangeByScore(ctx, key(domain, keyIndex), from)
		return nil
	})
	if err != nil {
		return nil, err
	}
	learns, _ := strconv.ParseInt(meta.Val()["learns"], 10, 64)
	state := &State{Domain: domain, Now: now, Learning: max(0, learns-now), Replicas: []ReplicaState{}}
	for _, z := range live.Val() {
		state.Replicas = append(state.Replicas, ReplicaState{Replica: fmt.Sprint(z.Member), Lease: int64(z.Score) - now})
	}
	members := index.Val()
	if state.IsCut = len(members) > mostShown; state.IsCut {
		members = members[:mostShown]
	}
	state.Pools, err = s.keyStates(ctx, domain, now, members, limits.Val())
	return state, err
}

var nowScript = redis.NewScript(`local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)`)

// now is the time of the Redis that has the domain's keys. Asked by a script, since a cluster sends TIME to any node.
func (s *Store) now(ctx context.Context, domain string) (int64, error) {
	return nowScript.Run(ctx, s.client, []string{key(domain, keyMeta)}).Int64()
}

// keyStates returns what is known of the keys that index has.
func (s *Store) keyStates(ctx context.Context, domain string, now int64, members []string,
	limits map[string]string) ([]KeyState, error) {
	states := []KeyState{}
	for batch := range slices.Chunk(members, 256) {
		holders := make([]*redis.MapStringStringCmd, len(batch))
		keys := make([]cluster.Key, len(batch))
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range batch {
				keys[i].Pool, keys[i].Key, _ = strings.Cut(name, "\x00")
				holders[i] = p.HGetAll(ctx, holdersKey(domain, keys[i]))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i := range batch {
			one, err := keyState(now, keys[i], holders[i].Val(), limits)
			if err != nil {
				return nil, err
			}
			states = append(states, one)
		}
	}
	slices.SortFunc(states, func(a, b KeyState) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Key.Key, b.Key.Key))
	})
	return states, nil
}

var errField = errors.New("a field in Redis has an unknown form: was it written by another version?")

// keyState reads the hash of one key.
func keyState(now int64, k cluster.Key, fields, limits map[string]string) (KeyState, error) {
	state := KeyState{Key: k, Limit: cluster.MaxCount, Source: "config", Replicas: []HolderState{}}
	for field, value := range fields {
		name, isHolder := strings.CutPrefix(field, "r:")
		if !isHolder {
			continue
		}
		var grant, wants, limit, number, ends int64
		if _, err := fmt.Sscan(value, &grant, &wants, &limit, &number, &ends); err != nil {
			return state, errField
		}
		if ends <= now {
			continue
		}
		state.Granted += grant
		state.Wanted += wants
		state.Limit = min(state.Limit, limit)
		state.Replicas = append(state.Replicas,
			HolderState{Replica: name, Granted: grant, Wants: wants, Limit: limit, Lease: ends - now})
	}
	slices.SortFunc(state.Replicas, func(a, b HolderState) int { return cmp.Compare(a.Replica, b.Replica) })
	for _, field := range []string{limitOfKey(k), limitOfPool(k.Pool)} {
		if text, isSet := limits[field]; isSet {
			limit, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return state, errField
			}
			state.Limit, state.Source = limit, "override"
			break
		}
	}
	return state, nil
}

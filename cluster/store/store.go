package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/cluster"
)

//go:embed lease.lua
var leaseText string

var leaseScript = redis.NewScript(leaseText)

// A Store keeps ledgers in Redis. Any number of them can work on one Redis.
type Store struct {
	client redis.UniversalClient
	script *redis.Script
}

// New returns a store. It connects when it is used.
func New(options *redis.UniversalOptions) *Store {
	silence()
	return &Store{client: redis.NewUniversalClient(options), script: leaseScript}
}

// silence has the client library write nothing: what it would write comes back as errors too, and a Redis that is away
// would fill the log.
var silence = sync.OnceFunc(func() { redis.SetLogger(noLog{}) })

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// Close ends the store's connections.
func (s *Store) Close() error { return s.client.Close() }

// key is the name of one of a domain's keys. A domain's name has no braces, so the first ones are the hash tag,
// whatever comes behind them.
func key(domain, name string) string { return "headgate:{" + domain + "}:" + name }

// The names of a domain's keys.
const (
	keyMeta   = "meta"
	keyLive   = "live"
	keyCalls  = "calls"
	keyLimits = "limits"
	keyIndex  = "index"
)

// The names of fields: pools have no zero byte in theirs.
func holdersKey(domain string, k cluster.Key) string { return key(domain, "key:"+member(k)) }
func member(k cluster.Key) string                    { return k.Pool + "\x00" + k.Key }
func limitOfKey(k cluster.Key) string                { return "k:" + member(k) }
func limitOfPool(pool string) string                 { return "p:" + pool }

// Lease carries out a call, which has been checked, in one script. It returns cluster.ErrLate and cluster.ErrFull as
// Ledger.Lease does. After any other error the call may have been carried out or not.
func (s *Store) Lease(ctx context.Context, call *cluster.LeaseCall) (*cluster.LeaseReply, error) {
	reply, _, err := s.lease(ctx, call)
	return reply, err
}

// lease is Lease, and returns Redis's time in milliseconds too.
func (s *Store) lease(ctx context.Context, call *cluster.LeaseCall) (*cluster.LeaseReply, int64, error) {
	d := call.Domain
	keys := []string{key(d, keyMeta), key(d, keyLive), key(d, keyCalls), key(d, keyLimits), key(d, keyIndex)}
	args := []any{call.Replica, call.Call, call.TTL}
	for _, ask := range call.Pools {
		keys = append(keys, holdersKey(d, ask.Key))
		args = append(args, limitOfKey(ask.Key), limitOfPool(ask.Pool), member(ask.Key), cluster.Start(ask.Key),
			ask.Limit, ask.Keep, ask.Wants)
	}
	answer, err := s.script.Run(ctx, s.client, keys, args...).Slice()
	if err != nil {
		return nil, 0, fmt.Errorf("the lease script: %w", err)
	}
	return readReply(call, answer)
}

// readReply reads what the script returned.
func readReply(call *cluster.LeaseCall, answer []any) (*cluster.LeaseReply, int64, error) {
	if len(answer) == 1 {
		switch answer[0] {
		case "late":
			return nil, 0, cluster.ErrLate
		case "full":
			return nil, 0, cluster.ErrFull
		}
	}
	n := make([]int64, len(answer))
	for i, value := range answer {
		var err error
		if n[i], err = strconv.ParseInt(fmt.Sprint(value), 10, 64); err != nil {
			return nil, 0, fmt.Errorf("the lease script returned %v: want numbers", value)
		}
	}
	if len(n) != 3+3*len(call.Pools) {
		return nil, 0, fmt.Errorf("the lease script returned %d values for %d keys", len(n), len(call.Pools))
	}
	reply := &cluster.LeaseReply{TTL: call.TTL, Learning: n[1], Expired: int(n[2])}
	reply.Pools = make([]cluster.Answer, 0, len(call.Pools))
	for i, ask := range call.Pools {
		of := n[3+3*i:]
		reply.Pools = append(reply.Pools, cluster.Answer{Key: ask.Key, Grant: of[0], Target: of[1], Safe: of[2]})
	}
	return reply, n[0], nil
}

// SetLimit sets the limit of a pool, or of one of its keys, by hand, or takes back what was set. It returns
// cluster.ErrOverrides when there are too many.
func (s *Store) SetLimit(ctx context.Context, call *cluster.LimitCall) error {
	limits, field := key(call.Domain, keyLimits), limitOfPool(call.Pool)
	if call.Key != nil {
		field = limitOfKey(cluster.Key{Pool: call.Pool, Key: *call.Key})
	}
	if call.Limit == nil {
		return s.client.HDel(ctx, limits, field).Err()
	}
	isSet, err := s.client.HExists(ctx, limits, field).Result()
	if err != nil {
		return err
	}
	// Two services may both see the last free place. One more than the bound does no harm.
	if count, err := s.client.HLen(ctx, limits).Result(); err != nil {
		return err
	} else if !isSet && count >= cluster.MaxOverrides {
		return cluster.ErrOverrides
	}
	return s.client.HSet(ctx, limits, field, *call.Limit).Err()
}

// Ready returns nil when Redis can be used. Otherwise the error says what to do.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("no answer from Redis: %w", err)
	}
	policy, err := s.policy(ctx)
	switch {
	case errors.Is(err, errHidden): // whoever hides it has to look at it
		return nil
	case err != nil:
		return fmt.Errorf("can't read maxmemory-policy: %w", err)
	case policy != "noeviction":
		return fmt.Errorf("Redis has maxmemory-policy %s and may forget who has permits: set it to noeviction", policy)
	}
	return nil
}

// errHidden says that a user may not ask, or that a provider's Redis has no such command.
var errHidden = errors.New("hidden")

// policy is what Redis does when its memory is full.
func (s *Store) policy(ctx context.Context) (string, error) {
	info, err := s.client.Info(ctx, "memory").Result()
	if isRefusal(err) {
		return "", errHidden
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); found {
			return policy, nil
		}
	}
	return "", errHidden
}

// isRefusal reports whether Redis has answered that it does not carry a command out.
func isRefusal(err error) bool {
	return err != nil && (redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown command"))
}

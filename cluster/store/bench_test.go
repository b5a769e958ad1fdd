package store

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cluster"
	"github.com/headgate/headgate/cluster/redistest"
)

// BenchmarkLease measures how long Redis works on one call, by its own statistics, when so many replicas share so many keys.
// docs/fleet.md has the figures.
func BenchmarkLease(b *testing.B) {
	for _, size := range [][2]int{{3, 1}, {3, 20}, {30, 1}, {30, 20}, {100, 20}, {1000, 1}, {1000, 5}} {
		b.Run(fmt.Sprintf("replicas=%d/keys=%d", size[0], size[1]), func(b *testing.B) {
			server := redistest.Start(b)
			s := open(b, server.URL())
			call := &cluster.LeaseCall{Domain: "d", TTL: 60_000}
			for k := range size[1] {
				call.Pools = append(call.Pools, cluster.Ask{Key: cluster.Key{Pool: "model", Key: fmt.Sprint("key-", k)}, Limit: 3 * int64(size[0])})
			}
			lease := func(i int) {
				call.Replica, call.Call = fmt.Sprint("gateway-", i%size[0]), int64(i+1)
				for k := range call.Pools {
					call.Pools[k].Wants, call.Pools[k].Keep = int64(i%7), int64(i%3)
				}
				_, err := s.Lease(b.Context(), call)
				require.NoError(b, err)
			}
			for i := range size[0] {
				lease(i)
			}
			server.Do("config", "resetstat")
			b.ResetTimer()
			for i := range b.N {
				lease(size[0] + i)
			}
			b.StopTimer()
			stats := fmt.Sprint(server.Do("info", "commandstats"))
			found := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=\d+,usec_per_call=([\d.]+)`).FindStringSubmatch(stats)
			require.NotNil(b, found, stats)
			micros, err := strconv.ParseFloat(found[1], 64)
			require.NoError(b, err)
			b.ReportMetric(micros, "us-in-redis/op")
			memory := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(fmt.Sprint(server.Do("info", "memory")))
			bytes, err := strconv.ParseFloat(memory[1], 64)
			require.NoError(b, err)
			b.ReportMetric(bytes/1e6, "MB-in-redis")
		})
	}
}

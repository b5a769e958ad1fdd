package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cluster"
	"github.com/headgate/headgate/cluster/redistest"
)

// awkward are texts that could leave their hash tag, if keys were made carelessly.
var awkward = []string{"a", "{a}", "}{", "{}", "a}b", "a b {c", "", "\x00", "é\u2028"}

func leaseOf(domain, replica string, call, keep int64, keys ...string) *cluster.LeaseCall {
	c := &cluster.LeaseCall{Domain: domain, Replica: replica, Call: call, TTL: 5000}
	for _, k := range keys {
		c.Pools = append(c.Pools, cluster.Ask{Key: cluster.Key{Pool: "tenant", Key: k}, Limit: 6, Keep: keep, Wants: 9})
	}
	return c
}

// One call with many keys, whatever their names, touches one slot of a Redis Cluster. A shard that is down fails the calls
// of its domains, and no others.
func TestCase_O27_ARedisClusterTakesEveryKey(t *testing.T) {
	nodes := redistest.StartCluster(t)
	s := open(t, "redis+cluster://"+nodes[0].Address+","+nodes[1].Address)
	down, up := "", ""
	for i := range 12 {
		domain := fmt.Sprint("d", i)
		reply, err := s.Lease(t.Context(), leaseOf(domain, "r", 1, 2, awkward...))
		require.NoError(t, err)
		require.Len(t, reply.Pools, len(awkward))
		for i, answer := range reply.Pools {
			require.Equal(t, awkward[i], answer.Key.Key)
			require.EqualValues(t, 2, answer.Grant)
		}
		state, err := s.State(t.Context(), domain)
		require.NoError(t, err)
		require.Len(t, state.Pools, len(awkward))
		four := int64(4)
		require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: domain, Pool: "tenant", Key: &awkward[1], Limit: &four}))
		switch slot := nodes[0].Do("cluster", "keyslot", key(domain, keyMeta)).(int64); {
		case slot >= 2*16384/3+1:
			down = domain
		default:
			up = domain
		}
	}
	require.NotEmpty(t, up)
	require.NotEmpty(t, down, "some domain is on the third node")
	nodes[2].Kill()
	_, err := s.Lease(t.Context(), leaseOf(down, "r", 2, 2, awkward...))
	require.Error(t, err, "an error, and no grant")
	require.True(t, redistest.Poll(20*time.Second, func() bool {
		_, err := s.Lease(context.Background(), leaseOf(up, "r", time.Now().UnixMilli(), 2, awkward...))
		return err == nil
	}))
}

// A slot that moves to another node while calls come: MOVED and ASK are followed, and no grant is lost. Redis can't carry
// out a script on a slot that is half moved: then the call fails, and the replica goes on with its lease.
func TestCase_O27_ASlotMoves(t *testing.T) {
	nodes := redistest.StartCluster(t)
	s := open(t, "redis+cluster://"+nodes[0].Address)
	call := int64(0)
	lease := func() {
		t.Helper()
		call++
		reply, err := s.Lease(t.Context(), leaseOf("d0", "r", call, 2, "k"))
		require.NoError(t, err)
		require.EqualValues(t, 2, reply.Pools[0].Grant)
	}
	lease()
	slot := nodes[0].Do("cluster", "keyslot", key("d0", keyMeta))
	from, to := nodes[0], nodes[1]
	for _, node := range nodes {
		if owned, err := node.Client().Do(t.Context(), "get", key("d0", "none")).Result(); err == nil || owned == nil && err.Error() == "redis: nil" {
			from = node
		}
	}
	if from == to {
		to = nodes[2]
	}
	fromID, toID := from.Do("cluster", "myid"), to.Do("cluster", "myid")
	to.Do("cluster", "setslot", slot, "importing", fromID)
	from.Do("cluster", "setslot", slot, "migrating", toID)
	host, port, _ := strings.Cut(to.Address, ":")
	for _, name := range from.Do("cluster", "getkeysinslot", slot, 100).([]any) {
		from.Do("migrate", host, port, name, 0, 5000)
	}
	_, err := s.Lease(t.Context(), leaseOf("d0", "r", 2, 2, "k")) // some keys have gone: ASK, and TRYAGAIN
	if err != nil {
		require.Regexp(t, "ASK|TRYAGAIN", err.Error())
	}
	call = 2
	for _, node := range nodes {
		node.Do("cluster", "setslot", slot, "node", toID)
	}
	lease() // MOVED
	state, err := s.State(t.Context(), "d0")
	require.NoError(t, err)
	require.EqualValues(t, 2, state.Pools[0].Granted)
}

// Sentinel names the new master after the old one has died. What was written before is there.
func TestSentinelFindsTheNewMaster(t *testing.T) {
	master := redistest.Start(t)
	host, port, _ := strings.Cut(master.Address, ":")
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	require.True(t, redistest.Poll(20*time.Second, func() bool {
		return strings.Contains(fmt.Sprint(replica.Do("info", "replication")), "master_link_status:up")
	}))
	sentinel := redistest.StartSentinel(t, master, "mine", 1)
	require.True(t, redistest.Poll(20*time.Second, func() bool {
		return strings.Contains(fmt.Sprint(sentinel.Do("sentinel", "replicas", "mine")), replica.Address)
	}), "the sentinel knows the replica")
	s := open(t, "redis+sentinel://"+sentinel.Address+"/mine")
	_, err := s.Lease(t.Context(), leaseOf("d", "a", 1, 5, "k"))
	require.NoError(t, err)
	require.True(t, redistest.Poll(10*time.Second, func() bool {
		return fmt.Sprint(replica.Do("exists", holdersKey("d", cluster.Key{Pool: "tenant", Key: "k"}))) == "1"
	}), "what the script writes is replicated")
	master.Kill()
	call := int64(1)
	var reply *cluster.LeaseReply
	require.True(t, redistest.Poll(40*time.Second, func() bool {
		call++
		reply, err = s.Lease(context.Background(), leaseOf("d", "b", call, 0, "k"))
		return err == nil
	}), "%v", err)
	state, err := s.State(t.Context(), "d")
	require.NoError(t, err)
	require.Zero(t, reply.Pools[0].Grant)
	require.NotEmpty(t, state.Pools)
}

// A user with the rights that docs/fleet.md lists, and no others.
func TestAUserWithFewRightsIsEnough(t *testing.T) {
	server := redistest.Start(t)
	server.Do(append([]any{"acl", "setuser", "headgate"}, aclWords(t)...)...)
	server.Do("acl", "setuser", "default", "off")
	s := open(t, "redis://headgate:secret@"+server.Address)
	require.NoError(t, s.Ready(t.Context()))
	for call := range int64(2) {
		_, err := s.Lease(t.Context(), leaseOf("d", "r", call+1, 2, awkward...))
		require.NoError(t, err)
	}
	one := int64(1)
	for _, limit := range []*int64{&one, nil} {
		require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "tenant", Limit: limit}))
	}
	state, err := s.State(t.Context(), "d")
	require.NoError(t, err)
	require.Len(t, state.Pools, len(awkward))
	require.Error(t, s.client.Set(t.Context(), "other", 1, 0).Err())
	require.Error(t, s.client.FlushAll(t.Context()).Err())
}

// aclWords is what docs/fleet.md says that the user needs.
func aclWords(t *testing.T) []any {
	text, err := os.ReadFile("../../docs/fleet.md")
	require.NoError(t, err)
	_, line, found := strings.Cut(string(text), "\nACL SETUSER headgate ")
	require.True(t, found)
	line, _, _ = strings.Cut(line, "\n```")
	words := []any{}
	for _, word := range strings.Fields(strings.ReplaceAll(line, "\\\n", "")) {
		words = append(words, strings.ReplaceAll(word, "PASSWORD", "secret"))
	}
	return words
}

// certificate makes a certificate for 127.0.0.1 that is its own authority.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	require.NoError(t, os.WriteFile(certFile, certPEM, 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	pool = x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certPEM))
	return certFile, keyFile, pool
}

func TestTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	plain := redistest.Start(t, "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "no")
	port := redistest.FreePort(t)
	plain.Do("config", "set", "tls-port", port)
	address, err := ParseAddress(fmt.Sprint("rediss://127.0.0.1:", port))
	require.NoError(t, err)
	require.True(t, address.TLS)
	good := New(address.Options(Settings{TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}))
	defer good.Close()
	require.NoError(t, good.Ready(t.Context()))
	bad := New(address.Options(Settings{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}))
	defer bad.Close()
	require.ErrorContains(t, bad.Ready(t.Context()), "certificate")
}

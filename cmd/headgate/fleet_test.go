package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cluster/redistest"
)

// planFleet reads arguments, and an environment in the form NAME=VALUE, as headgate fleet does.
func planFleet(t *testing.T, environment []string, args ...string) (*fleetPlan, error) {
	t.Helper()
	c, _, plan := newFleet()
	plan.environment = func(name string) string {
		for _, entry := range environment {
			if value, found := strings.CutPrefix(entry, name+"="); found {
				return value
			}
		}
		return ""
	}
	if err := parse(c, args...); err != nil {
		return plan, err
	}
	return plan, plan.resolve()
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestFleetTakesItsSecretsFromWhereTheyAre(t *testing.T) {
	file := secretFile(t, "from-file\n")
	for _, c := range []struct {
		environment         []string
		args                string
		token, user, secret string
	}{
		{nil, "--redis redis://u:p@h", "", "u", "p"},
		{[]string{"HEADGATE_REDIS=redis://h", "HEADGATE_FLEET_TOKEN=t", "HEADGATE_REDIS_USERNAME=u", "HEADGATE_REDIS_PASSWORD=p"}, "", "t", "u", "p"},
		{[]string{"HEADGATE_FLEET_TOKEN=t", "HEADGATE_REDIS_PASSWORD=p"}, "--redis redis://h --token flag", "flag", "", "p"},
		{[]string{"HEADGATE_REDIS_PASSWORD=p"}, "--redis redis://h --token-file " + file + " --redis-password-file " + file, "from-file", "", "from-file"},
	} {
		plan, err := planFleet(t, c.environment, strings.Fields(c.args)...)
		require.NoError(t, err, c.args)
		require.Equal(t, []string{c.token, c.user, c.secret}, []string{plan.token, plan.address.Username, plan.address.Password}, c.args)
	}
}

func TestFleetSaysWhatToDo(t *testing.T) {
	empty := secretFile(t, "\n")
	for args, want := range map[string]string{
		"": "fleet needs a Redis: --redis redis://HOST:6379/0, or the same in HEADGATE_REDIS",
		"--redis h:6379": "--redis: want redis://HOST:PORT/DATABASE, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or " +
			"redis+cluster://HOST:PORT,HOST:PORT, with rediss in place of redis for TLS",
		"--redis redis://h --redis-ca x":                "--redis-ca, --redis-cert and --redis-key are for TLS: write rediss in place of redis in --redis",
		"--redis rediss://h --redis-ca " + empty:        "--redis-ca: " + empty + " has no certificate in PEM form",
		"--redis rediss://h --redis-cert x":             "--redis-cert and --redis-key belong together: give both or none",
		"--redis redis://h --tls-cert x":                "--tls-cert and --tls-key belong together: give both or none",
		"--redis redis://h --listen 0.0.0.0:1":          "--listen 0.0.0.0:1 lets other machines call, so a token is needed: --token-file FILE, or HEADGATE_FLEET_TOKEN",
		"--redis redis://h --listen 1":                  `--listen "1": want an address and a port, e.g. 127.0.0.1:10800, [::]:10800`,
		"--redis redis://h --log xml":                   `--log "xml": want text or json`,
		"--redis redis://h --token a --token-file b":    "--token and --token-file say the same thing: leave one out",
		"--redis redis://h --token-file " + empty:       "--token-file: " + empty + " has no secret (want one line of at most 4096 bytes)",
		"--redis redis://h --redis-password-file /none": "--redis-password-file: open /none: no such file or directory",
	} {
		_, err := planFleet(t, nil, strings.Fields(args)...)
		require.EqualError(t, err, want, args)
	}
	status, _, errs := call("", "fleet")
	require.Equal(t, statusUsage, status, errs)
}

func TestFleetShowsNoSecret(t *testing.T) {
	for _, args := range []string{
		"--redis redis://u:hush@h:x --token hush", "--redis rediss+nothing://u:hush@h", "--redis redis://u:hush%zz@h",
		"--redis redis://u:hu/sh@h:1/2/3 --token hush", "--redis redis://u:hush@h --redis redis://u:hush@h --token hush --token hush --tls-cert x",
		"--redis redis://h --token hush --listen 1",
	} {
		status, out, errs := call("", append([]string{"fleet"}, strings.Fields(args)...)...)
		require.Equal(t, statusUsage, status, args)
		require.NotContains(t, out+errs, "hush", args)
		require.NotContains(t, out+errs, "hu/sh", args)
	}
}

func TestFleetExamplesAreCommandsThatWork(t *testing.T) {
	_, out, _ := call("", "fleet", "--help")
	_, examples, _ := strings.Cut(out, "\nExamples:\n")
	examples, _, _ = strings.Cut(strings.ReplaceAll(examples, "\\\n", ""), "\n\nRedis:")
	shown := regexp.MustCompile(`(?m)^  (?:[A-Z_]+=\S+ )?headgate fleet (.*)$`).FindAllStringSubmatch(examples, -1)
	require.Len(t, shown, 3)
	for _, line := range shown {
		c, _, _ := newFleet()
		require.NoError(t, parse(c, strings.Fields(line[1])...), line[1])
	}
}

// A fleetClient calls a service.
type fleetClient struct {
	t     *testing.T
	base  string
	token string
}

func (f fleetClient) call(method, path, body string) (int, string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, f.base+path, strings.NewReader(body))
	require.NoError(f.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+f.token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	return answer.StatusCode, string(text)
}

// expect repeats a call until it has this status: on a slow machine Redis may be late. It returns the answer.
func (f fleetClient) expect(want int, method, path, body string) (text string) {
	f.t.Helper()
	got := 0
	require.True(f.t, redistest.Poll(20*time.Second, func() bool {
		got, text = f.call(method, path, body)
		return got == want
	}), "%s %s: %d %s", method, path, got, text)
	return text
}

// startFleet starts headgate fleet and waits until it serves.
func startFleet(t *testing.T, env []string, args ...string) (*tool, fleetClient) {
	t.Helper()
	h := startTool(t, env, append([]string{"fleet", "--listen", "127.0.0.1:0"}, args...)...)
	var address []string
	require.True(t, redistest.Poll(30*time.Second, func() bool {
		address = regexp.MustCompile(`listen=(\S+)`).FindStringSubmatch(h.errs.String())
		return address != nil
	}), h.errs.String())
	return h, fleetClient{t: t, base: "http://" + address[1], token: "hush"}
}

const leaseBody = `{"domain":"d","replica":"r","call":1,"ttl_ms":5000,"pools":[{"pool":"model","key":"m","limit":6,"keep":2,"wants":9}]}`

// Two services over one Redis are one service: what one of them has granted, the other one knows.
func TestTwoFleetServicesAreOne(t *testing.T) {
	redis := redistest.Start(t, "--requirepass", "hush")
	secrets := []string{"HEADGATE_FLEET_TOKEN=hush", "HEADGATE_REDIS_PASSWORD=hush"}
	first, a := startFleet(t, secrets, "--redis", redis.URL(), "--log", "text")
	_, b := startFleet(t, secrets, "--redis", redis.URL())
	a.expect(http.StatusOK, http.MethodPost, "/v1/lease", leaseBody)
	text := b.expect(http.StatusOK, http.MethodGet, "/v1/state?domain=d", "")
	var state struct {
		Pools []struct{ Granted, Wanted, Limit int }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &state))
	require.Equal(t, []int{2, 9, 6}, []int{state.Pools[0].Granted, state.Pools[0].Wanted, state.Pools[0].Limit})
	b.expect(http.StatusOK, http.MethodPut, "/v1/limits", `{"domain":"d","pool":"model","key":"m","limit":3}`)
	text = a.expect(http.StatusOK, http.MethodPost, "/v1/lease", strings.Replace(leaseBody, `"call":1`, `"call":2`, 1))
	require.Contains(t, text, `"target":3`)

	redis.Kill()
	a.expect(http.StatusServiceUnavailable, http.MethodGet, "/readyz", "")
	a.expect(http.StatusOK, http.MethodGet, "/healthz", "")
	a.expect(http.StatusServiceUnavailable, http.MethodPost, "/v1/lease", leaseBody)

	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, redistest.Poll(20*time.Second, func() bool { return len(first.status) > 0 }))
	require.Equal(t, 0, <-first.status, first.errs.String())
	require.NotContains(t, first.errs.String(), "hush")
}

// docs/fleet.md has each flag, and each variable.
func TestFleetFlagsAreDescribed(t *testing.T) {
	text, err := os.ReadFile("../../docs/fleet.md")
	require.NoError(t, err)
	c, _, _ := newFleet()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			require.Contains(t, string(text), "`--"+f.Name+"`")
		}
	})
	for _, name := range []string{redisVariable, redisUserVariable, redisPasswordVariable, sentinelUserVariable,
		sentinelPasswordVariable, fleetTokenVariable} {
		require.Contains(t, string(text), "`"+name+"`")
	}
}

// With a certificate the service speaks TLS. Without Redis it serves all the same, and says that it is not ready.
func TestFleetSpeaksTLS(t *testing.T) {
	signer := newAuthority(t)
	der, private := sign(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, signer.certificate, signer.key)
	privateDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	cert := secretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	key := secretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: privateDER})))
	_, service := startFleet(t, []string{"HEADGATE_FLEET_TOKEN=hush"}, "--redis", "redis://127.0.0.1:1", "--tls-cert", cert, "--tls-key", key)
	pool := x509.NewCertPool()
	pool.AddCert(signer.certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		answer, err := client.Get(strings.Replace(service.base, "http:", "https:", 1) + path)
		require.NoError(t, err)
		answer.Body.Close()
		require.Equal(t, want, answer.StatusCode, path)
	}
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// A heldAPI is a model API that answers a request with ?hold only when it is told to.
type heldAPI struct {
	*httptest.Server
	release chan struct{}
	running atomic.Int32
}

func newHeldAPI(t *testing.T) *heldAPI {
	t.Helper()
	api := &heldAPI{release: make(chan struct{})}
	api.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.running.Add(1)
		defer api.running.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body) // only then is it seen that the client leaves
		if r.URL.Query().Has("hold") {
			select {
			case <-api.release:
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(func() { api.CloseClientConnections(); api.Close() })
	return api
}

const chatPath = "/v1/chat/completions"

// hold sends a request that the API holds. The returned channel gets its status when it has ended.
func (h *tool) hold(t *testing.T) <-chan int {
	t.Helper()
	status := make(chan int, 1)
	go func() {
		reply, err := h.post(chatPath+"?hold", false)
		if err != nil {
			status <- 0
			return
		}
		_, err = io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
		if err != nil {
			status <- -1
			return
		}
		status <- reply.StatusCode
	}()
	return status
}

// holdUntilRunning is hold for a request that is to run at once, as the n-th.
func (h *tool) holdUntilRunning(t *testing.T, api *heldAPI, n int32) <-chan int {
	t.Helper()
	status := h.hold(t)
	rig.Eventually(t, endWithin, fmt.Sprintf("%d run", n), func() bool { return api.running.Load() == n })
	return status
}

// requireRefused checks that no more requests may run.
func (h *tool) requireRefused(t *testing.T, pool string) {
	t.Helper()
	reply := h.send(chatPath, false)
	require.Equal(t, http.StatusTooManyRequests, reply.StatusCode)
	require.Equal(t, pool, reply.Header.Get("x-headgate-pool"))
}

// eventuallySays waits until the tool has written the text to standard error.
func (h *tool) eventuallySays(t *testing.T, text string) {
	t.Helper()
	rig.Eventually(t, endWithin, "it says "+text, func() bool { return strings.Contains(h.errs.String(), text) })
}

func limitOf(limit int) string {
	return `{"routes": ["POST /chat/completions"], "pools": [{"name": "mine", "limit": ` + strconv.Itoa(limit) + `}]}`
}

// replace puts a new file in the place of the one at path, in one step.
func replace(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func TestFinding_D6_AChangedFileIsTheNewConfigurationAndPermitsAreKept(t *testing.T) {
	api := newHeldAPI(t)
	file := writePlugin(t, "plugin.json", limitOf(1))
	h := runGateway(t, nil, "--upstream", api.URL, "--config", file)
	const runs = " has changed: the new configuration runs\n"

	held := []<-chan int{h.holdUntilRunning(t, api, 1)}
	h.requireRefused(t, "mine")
	replace(t, file, limitOf(2))
	h.eventuallySays(t, file+runs)
	held = append(held, h.holdUntilRunning(t, api, 2))
	h.requireRefused(t, "mine")

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(limitOf(5), `"limit"`, `"limits"`, 1)), 0o600))
	h.eventuallySays(t, file+": pools[0].limits: is not a field here")
	h.eventuallySays(t, "; the configuration before goes on\n")
	h.requireRefused(t, "mine")

	require.NoError(t, os.WriteFile(file, []byte("pools: [{name: mine, limit: 3}]\nroutes: [POST /chat/completions]\n"), 0o600))
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGHUP))
	rig.Eventually(t, endWithin, "it says so again", func() bool { return strings.Count(h.errs.String(), runs) == 2 })
	held = append(held, h.holdUntilRunning(t, api, 3))
	h.requireRefused(t, "mine")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGHUP))
	h.eventuallySays(t, file+" has not changed\n")

	close(api.release)
	for _, status := range held {
		require.Equal(t, http.StatusOK, <-status, "a request that ran over the changes")
	}
	for line := range strings.Lines(h.errs.String()) {
		require.Regexp(t, `^headgate: `, line)
	}
}

// A request that waits when the file changes gets its permit from the configuration before, and the routes change too.
func TestFinding_D6_ARequestThatWaitsOverAChangeIsServed(t *testing.T) {
	api := newHeldAPI(t)
	const form = `{"routes": ["POST /%s"], "pools": [{"name": "mine", "limit": 1, "queue": 1, "max_wait": "60s"}]}`
	file := writePlugin(t, "plugin.json", fmt.Sprintf(form, "chat/completions"))
	h := runGateway(t, nil, "--upstream", api.URL, "--config", file)
	running := h.holdUntilRunning(t, api, 1)
	waiting := h.hold(t)
	rig.Eventually(t, endWithin, "one waits", func() bool { return h.shows("mine.queued", 1) })

	replace(t, file, fmt.Sprintf(form, "messages"))
	h.eventuallySays(t, "the new configuration runs")
	require.Equal(t, http.StatusOK, h.send(chatPath, false).StatusCode, "chats are not governed any more")
	require.True(t, h.shows("mine.queued", 1))
	close(api.release)
	require.Equal(t, http.StatusOK, <-running)
	require.Equal(t, http.StatusOK, <-waiting)
}

func TestFinding_D6_AnOpenConnectionHasTheNewConfigurationToo(t *testing.T) {
	api := newHeldAPI(t)
	file := writePlugin(t, "plugin.json", limitOf(0))
	h := runGateway(t, nil, "--upstream", api.URL, "--config", file)
	connection, err := net.Dial("tcp", h.printed(gatewayURL))
	require.NoError(t, err)
	defer connection.Close()
	in := bufio.NewReader(connection)
	post := func() int {
		_, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n", chatPath)
		require.NoError(t, err)
		reply, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		defer reply.Body.Close()
		whole(t, reply.Body)
		return reply.StatusCode
	}
	require.Equal(t, http.StatusTooManyRequests, post())
	replace(t, file, limitOf(1))
	h.eventuallySays(t, "the new configuration runs")
	require.Equal(t, http.StatusOK, post())
}

// Without retries there is one filter in one stage.
func TestFinding_D6_AFileChangesWithoutRetriesToo(t *testing.T) {
	api := newHeldAPI(t)
	file := writePlugin(t, "plugin.json", limitOf(0))
	h := runGateway(t, nil, "--upstream", api.URL, "--config", file, "--retry", "0")
	h.requireRefused(t, "mine")
	replace(t, file, limitOf(1))
	h.eventuallySays(t, "the new configuration runs")
	require.Equal(t, http.StatusOK, h.send(chatPath, false).StatusCode)
}

// A longer wait than that of the start would end in Envoy's own timeouts.
func TestFinding_D6_ALongerWaitThanAtTheStartIsWarnedOf(t *testing.T) {
	file := writePlugin(t, "plugin.json", limitOf(1))
	h := runGateway(t, nil, "--sample", "--config", file)
	replace(t, file, `{"pools": [{"name": "mine", "limit": 1, "queue": 1, "max_wait": "1h"}]}`)
	h.eventuallySays(t, "warning: "+file+" changes the longest wait")
	h.eventuallySays(t, "the new configuration runs")
}

func TestFinding_D6_AFileThatGoesIsToldOnce(t *testing.T) {
	file := writePlugin(t, "plugin.json", limitOf(1))
	h := runGateway(t, nil, "--sample", "--config", file)
	require.NoError(t, os.Remove(file))
	h.eventuallySays(t, "open "+file+": no such file or directory; the configuration before goes on\n")
	replace(t, file, limitOf(2))
	h.eventuallySays(t, "the new configuration runs")
	require.Equal(t, 1, strings.Count(h.errs.String(), "no such file"))
}

// Envoy takes a filter of a discovery file later than its bootstrap, and is ready without it.
func TestFinding_D6_AModuleThatEnvoyRefusesIsToldAtTheStart(t *testing.T) {
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	h := startTool(t, []string{"ENVOY=" + binary}, "run", "--sample", "--bind", "127.0.0.1:0", "--workers", "1",
		"--wasm", emptyModule(t), "--config", writePlugin(t, "plugin.json", limitOf(1)))
	h.requireOneLine(`Envoy refused the configuration: .*[Ww]asm.* \(Envoy's log: \S+/envoy\.log\)`)
	require.NotContains(t, h.out.String(), "is up")
}

func TestFinding_D6_TheModeOfTheFlagsWins(t *testing.T) {
	api := newHeldAPI(t)
	file := writePlugin(t, "plugin.json", limitOf(0))
	h := runGateway(t, nil, "--upstream", api.URL, "--config", file, "--mode", "shadow")
	require.Contains(t, h.out.String(), "Mode:    shadow: every request passes")
	require.Contains(t, h.out.String(), "Limits:  would be the pools of "+file+" (mine); it is read again when it changes\n")
	require.Equal(t, http.StatusOK, h.send(chatPath, false).StatusCode)
	rig.Eventually(t, endWithin, "the stat", func() bool { return h.shows("mine.shadow_would_reject", 1) })
}

func TestFinding_D6_TheAdminListenerHasItsAddress(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	admin := free.Addr().String()
	status, _, errs := call("", "run", "--sample", "--bind", "127.0.0.1:0", "--admin", admin, "--wasm", emptyModule(t))
	require.Equal(t, 1, status)
	require.Equal(t, "headgate: "+admin+" is taken: choose another with --admin\n", errs)
	require.NoError(t, free.Close())

	h := runGateway(t, nil, "--sample", "--admin", admin)
	require.Equal(t, admin, h.printed(pageURL))
	for path, has := range map[string]string{"/stats/prometheus": `headgate_inflight{pool="route"} `, "/headgate/": "<title>Headgate", "/headgate/v1/state": `"name":"route"`} {
		reply, err := http.Get("http://" + admin + path)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, reply.StatusCode, path)
		require.Contains(t, whole(t, reply.Body), has, path)
		reply.Body.Close()
	}
	for path, want := range map[string]int{"/stats": http.StatusNotFound, "/quitquitquit": http.StatusNotFound, "/config_dump": http.StatusNotFound} {
		reply, err := http.Post("http://"+admin+path, "", nil)
		require.NoError(t, err)
		require.Equal(t, want, reply.StatusCode, path)
		reply.Body.Close()
	}
	require.Empty(t, h.said())
}

// Two gateways on one machine both have a page. The second one says where.
func TestASecondGatewayHasItsPageElsewhere(t *testing.T) {
	taken, err := net.Listen("tcp", defaultAdmin().String())
	if err == nil { // otherwise another gateway has it, which is as good
		defer taken.Close()
	}
	h := runGateway(t, nil, "--sample")
	require.NotEqual(t, defaultAdmin().String(), h.printed(pageURL))
	require.Contains(t, h.out.String(), "/headgate/ (127.0.0.1:10001 is taken)\n")
	reply, err := http.Get("http://" + h.printed(pageURL) + "/headgate/v1/state")
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, http.StatusOK, reply.StatusCode)
}

func TestWithoutAnAdminListenerThereIsNone(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://127.0.0.1:8080", "--admin", "off")
	require.NotContains(t, rendered, `"stage": "admin"`)
	require.NotContains(t, rendered, "envoy-admin")
	rendered = render(t, "envoy", "--upstream", "http://127.0.0.1:8080", "--admin", "127.0.0.1:7")
	require.Equal(t, "7", at(t, rendered, adminListenerPath+"/address/socket_address/port_value"))
	require.False(t, parsedPlugin(t, rendered, adminFilterPath).Admin.Expose)
}

func TestFinding_D6_AnAdminListenerForOthersIsWarnedOf(t *testing.T) {
	h := startTool(t, []string{"ENVOY=" + fakeEnvoy(t, "exit 3")}, "run", "--sample", "--bind", "127.0.0.1:0",
		"--admin", "0.0.0.0:0", "--wasm", emptyModule(t))
	h.eventuallySays(t, "headgate: warning: --admin 0.0.0.0:0: other machines can reach the admin page")
	file := writePlugin(t, "plugin.json", `{"pools": [{"name": "mine", "limit": 1}]}`)
	for _, flags := range [][]string{{}, {"--config", file}} {
		args := append([]string{"envoy", "--upstream", "http://127.0.0.1:8080", "--admin", "0.0.0.0:10001"}, flags...)
		require.True(t, parsedPlugin(t, render(t, args...), adminFilterPath).Admin.Expose, "it was asked for")
	}
}

func TestFinding_D6_TheToolSaysWhichEnvoyItRuns(t *testing.T) {
	binary := fakeEnvoy(t, "exit 0")
	t.Setenv("ENVOY", binary)
	status, out, errs := call("", "envoy")
	require.Equal(t, 0, status)
	require.Equal(t, binary+"\n", out)
	require.Empty(t, errs)
	t.Setenv("ENVOY", "/no/such/envoy")
	status, out, errs = call("", "envoy")
	require.Equal(t, 1, status)
	require.Empty(t, out)
	require.Contains(t, errs, "no Envoy: $ENVOY is /no/such/envoy")
}

// Kubernetes changes a ConfigMap by putting another folder behind a link.
func TestFinding_D6_TheLinkOfAConfigMapIsFollowed(t *testing.T) {
	dir := t.TempDir()
	for folder, text := range map[string]string{"one": limitOf(1), "two": "two: 2\n"} {
		require.NoError(t, os.Mkdir(dir+"/"+folder, 0o700))
		require.NoError(t, os.WriteFile(dir+"/"+folder+"/plugin.json", []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink("one", dir+"/data"))
	require.NoError(t, os.Symlink("data/plugin.json", dir+"/plugin.json"))
	var said output
	plan := &runPlan{gateway: gateway{configPath: dir + "/plugin.json"}, notes: newNotes(&said)}
	r := &reload{plan: plan, judged: []byte(limitOf(1))}
	look := func() { r.look(t.Context()); r.look(t.Context()) }
	look()
	require.Empty(t, said.String())
	require.NoError(t, os.Symlink("two", dir+"/next"))
	require.NoError(t, os.Rename(dir+"/next", dir+"/data"))
	look()
	require.Contains(t, said.String(), dir+"/plugin.json: two: is not a field here")
}

// Whoever writes a file in place may be half done when it is read.
func TestFinding_D6_AHalfWrittenFileIsNotJudged(t *testing.T) {
	file := writePlugin(t, "plugin.json", limitOf(1))
	var said output
	plan := &runPlan{gateway: gateway{configPath: file}, notes: newNotes(&said)}
	r := &reload{plan: plan, judged: []byte(limitOf(1))}
	for i := range 20 {
		require.NoError(t, os.WriteFile(file, []byte(limitOf(1)[:20+i]), 0o600))
		r.look(t.Context())
	}
	require.Empty(t, said.String())
	r.look(t.Context())
	require.Contains(t, said.String(), "the configuration before goes on")
}

// In shadow mode nothing keeps tries from coming too early, so there is no pool of tries: ten calls that enforcing would
// let run or wait are none that it would refuse.
func TestFinding_A1_RunInShadowPredictsWithRetries(t *testing.T) {
	finish := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-finish }))
	defer api.Close()
	h := runGateway(t, nil, "--upstream", api.URL, "--mode", "shadow", "--concurrency", "2", "--queue", "6")
	var all sync.WaitGroup
	for range 10 {
		h.requestInBackground(&all, "/v1/chat/completions", "")
	}
	rig.Eventually(t, endWithin, "all are counted", func() bool { return h.shows("route.evaluated", 10) })
	require.True(t, h.shows("route.shadow_would_wait", 6) && h.shows("route.shadow_would_reject", 2), "two run, six wait")
	require.NotContains(t, h.numbers(), "upstream.shadow_would_wait")
	close(finish)
	all.Wait()
}

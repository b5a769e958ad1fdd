// Package quickstart tests the example in this folder, all of it that runs without containers.
package quickstart

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/envoy/rig"
)

// A composeFile has the keys of the Compose specification that the example uses.
type composeFile struct {
	Services map[string]struct {
		Image     string
		Command   []string
		Volumes   []string
		Ports     []string
		DependsOn []string `yaml:"depends_on"`
	}
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var file composeFile
	require.NoError(t, decoder.Decode(&file))
	return file
}

func TestComposeMountsWhatIsThere(t *testing.T) {
	for name, service := range readCompose(t).Services {
		require.NotEmpty(t, service.Image, name)
		for _, volume := range service.Volumes {
			source, target, found := strings.Cut(volume, ":")
			require.True(t, found, volume)
			_, err := os.Stat(source)
			require.NoError(t, err, "build/headgate.wasm comes from `make build`")
			require.True(t, strings.HasPrefix(target, "/") && strings.HasSuffix(target, ":ro"), volume)
		}
	}
}

func TestComposePublishesOnThisMachineOnly(t *testing.T) {
	for name, service := range readCompose(t).Services {
		for _, port := range service.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
		}
	}
}

func TestComposeTakesTheEnvoyThatIsTested(t *testing.T) {
	pinned, err := os.ReadFile("../../build/envoy.version")
	require.NoError(t, err)
	minor := pinned[:bytes.LastIndexByte(pinned, '.')]
	require.Equal(t, "envoyproxy/envoy:v"+string(minor)+"-latest", readCompose(t).Services["gateway"].Image)
}

// The README names the command that makes envoy.yaml; the file is what it prints.
func TestEnvoyConfigurationIsWhatTheCommandPrints(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^build/headgate (render .*)$`).FindSubmatch(readme)
	require.NotNil(t, command)
	render := exec.Command("go", append([]string{"run", "./cmd/headgate"}, strings.Fields(string(command[1]))...)...)
	render.Dir = "../.."
	want, err := render.Output()
	require.NoError(t, err)
	have, err := os.ReadFile("envoy.yaml")
	require.NoError(t, err)
	require.Equal(t, string(want), string(have), "make it anew: %s > examples/quickstart/envoy.yaml", command[0])
}

// start runs a program until it is stopped, at the latest by the end of the test.
func start(t *testing.T, name string, args ...string) (stop func()) {
	t.Helper()
	program := exec.Command(name, args...)
	program.Stderr = t.Output()
	require.NoError(t, program.Start())
	stop = sync.OnceFunc(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// here is envoy.yaml for this machine: other addresses, nothing else.
func here(t *testing.T, gateway, admin, model int) string {
	t.Helper()
	wasm, err := rig.WasmPath()
	require.NoError(t, err)
	text, err := os.ReadFile("envoy.yaml")
	require.NoError(t, err)
	config := string(text)
	for _, change := range []struct {
		was, is string
		times   int
	}{
		{"address: 0.0.0.0, port_value: 10000", "address: 127.0.0.1, port_value: " + strconv.Itoa(gateway), 1},
		{"address: 127.0.0.1, port_value: 9901", "address: 127.0.0.1, port_value: " + strconv.Itoa(admin), 2}, // itself, and the cluster that leads to it
		{"address: 0.0.0.0, port_value: 10001", "address: 127.0.0.1, port_value: 0", 1},
		{"address: model, port_value: 8080", "address: 127.0.0.1, port_value: " + strconv.Itoa(model), 2}, // for gRPC, too,
		{"filename: /etc/envoy/headgate.wasm", "filename: " + wasm, 4},                                    // a filter for requests, two for tries, one for the admin page
	} {
		require.Equal(t, change.times, strings.Count(config, change.was), change.was)
		config = strings.ReplaceAll(config, change.was, change.is)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := rig.FreePort()
	require.NoError(t, err)
	return port
}

// Two run, three wait, three are refused at once. All eight have to come while the first two run: where the machine is
// too busy for that, the model takes longer.
func TestEightRequestsAtOnceEndAsTheREADMESays(t *testing.T) {
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	gateway, admin, model := freePort(t), freePort(t), freePort(t)
	start(t, binary, "--disable-hot-restart", "--log-level", "error", "--concurrency", "2", "-c",
		here(t, gateway, admin, model))
	awaitAnswer(t, "http://127.0.0.1:"+strconv.Itoa(admin)+"/ready")
	want := map[int]int{http.StatusOK: 5, http.StatusTooManyRequests: 3}
	var count map[int]int
	for _, takes := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 8 * time.Second} {
		stop := start(t, "python3", "model.py", strconv.Itoa(model), fmt.Sprint(takes.Seconds()))
		awaitAnswer(t, "http://127.0.0.1:"+strconv.Itoa(model))
		began := time.Now()
		if count = eightAtOnce(gateway); maps.Equal(count, want) {
			require.Greater(t, time.Since(began), 5*takes/2, "five replies two at a time take three rounds")
			return
		}
		stop()
	}
	require.Equal(t, want, count)
}

func awaitAnswer(t *testing.T, url string) {
	t.Helper()
	rig.Await(t, url+" answers", func() bool { return status(http.Get(url)) != 0 })
}

// eightAtOnce sends eight requests and returns how many ended with each status.
func eightAtOnce(gateway int) map[int]int {
	ended := make(chan int)
	for range 8 {
		go func() {
			url := "http://127.0.0.1:" + strconv.Itoa(gateway) + "/v1/chat/completions"
			ended <- status(http.Post(url, "application/json", strings.NewReader("{}")))
		}()
	}
	count := map[int]int{}
	for range 8 {
		count[<-ended]++
	}
	return count
}

// status reads a reply to its end and returns its status, or 0 for none.
func status(reply *http.Response, err error) int {
	if err != nil {
		return 0
	}
	defer reply.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(reply.Body); err != nil {
		return 0
	}
	return reply.StatusCode
}

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asTool is the environment variable that makes the test binary run as the headgate program. Tests of the whole process
// then run the code under test.
const asTool = "HEADGATE_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	os.Exit(m.Run())
}

// call runs a command in this process.
func call(stdin string, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = headgate(terminal{strings.NewReader(stdin), &o, &e}, args)
	return status, o.String(), e.String()
}

const (
	upstreamForm = "want http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]"
	patternForm  = `[METHOD ]/path[:N][@group], e.g. "POST /chat/completions:4"`
	bindForm     = "want IP:PORT, e.g. 127.0.0.1:10000, or 0.0.0.0:10000 for all interfaces"
)

// usageErrors are wrong arguments and the error that they get.
var usageErrors = []struct{ args, want string }{
	{"", "no command: want run, render, check, top, fleet, schema, envoy, completion, version or help (try `headgate help`)"},
	{"serve", "no command \"serve\": want run, render, check, top, fleet, schema, envoy, completion, version or help (try `headgate help`)"},
	{"help serve", "no command \"serve\": want run, render, check, top, fleet, schema, envoy, completion, version or help (try `headgate help`)"},
	{"version now", "unexpected argument \"now\" (see `headgate help version`)"},
	{"run", "--upstream is missing: where is the model API? e.g. --upstream https://api.example.com"},
	{"run --upstream", "flag needs an argument: --upstream (see `headgate help run`)"},
	{"run --upstream example.com", `--upstream "example.com": ` + upstreamForm},
	{"run --upstream http://a?b=c",
		`--upstream "http://a?b=c": ` + upstreamForm +
			", without user, query or fragment (clients send their own credentials)"},
	{"run --upstream http://a:99999", `--upstream "http://a:99999": 99999 is not a port: want 1 to 65535`},
	{"run --sample --upstream http://a", "--sample brings its own model API: leave out --upstream or --sample"},
	{"run --sample now", `--sample "now": want on or off`},
	{"run --workers 1 now", "unexpected argument \"now\" (see `headgate help run`)"},
	{"run --sample --colour", "unknown flag: --colour (see `headgate help run`)"},
	{"run --sample --bind host:1", `--bind "host:1": ` + bindForm},
	{"run --sample --bind :10000", `--bind ":10000": ` + bindForm},
	{"run --sample --concurrency 0", `--concurrency "0": want a whole number from 1 to 100000`},
	{"run --sample --concurrency 1.5", `--concurrency "1.5": want a whole number from 1 to 100000`},
	{"run --sample --queue -1", `--queue "-1": want a whole number from 0 to 100000`},
	{"run --sample --queue 4294967297", `--queue "4294967297": want a whole number from 0 to 100000`},
	{"run --sample --queue-timeout 5", `--queue-timeout "5": want a duration from 1ms to 1h, e.g. 30s or 250ms`},
	{"run --sample --queue-timeout 2h", `--queue-timeout "2h": want a duration from 1ms to 1h, e.g. 30s or 250ms`},
	{"run --sample --queue-timeout 1.0005s",
		`--queue-timeout "1.0005s": want a duration from 1ms to 1h, e.g. 30s or 250ms`},
	{"run --sample --limit chat", `--limit "chat": has no path that begins with '/': want ` + patternForm},
	{"run --sample --limit /chat:4.5",
		`--limit "/chat:4.5": has no limit after ':' (want 0 to 1000000): want ` + patternForm},
	{"render istio --limit /a:2@g --limit /b@g",
		`--limit "/b@g": "/b:4@g" disagrees with --limit "/a:2@g" on the limit of group "@g"`},
	{"run --sample --print-config --limit /a:2 --limit /a",
		`--limit "/a": "/a:2" repeats --limit "/a:2", which would always match first`},
	{"run --sample --global-concurrency 0", `--global-concurrency "0": want a whole number from 1 to 100000, or off`},
	{"run --sample --retry -1", `--retry "-1": want a whole number from 0 to 100000, or unlimited`},
	{"run --sample --retry-max-body-mb 5000", `--retry-max-body-mb "5000": want a whole number from 0 to 1024`},
	{"run --sample --retry-wait-min 0", `--retry-wait-min "0": want a duration from 1ms to 1h, e.g. 30s or 250ms`},
	{"run --sample --retry-wait-min 9s --retry-wait-max 8s",
		"--retry-wait-min 9s is above --retry-wait-max 8s: want it the other way round"},
	{"run --sample --retry-min-delay 9s --retry-wait-max 8s",
		"--retry-min-delay 9s is above --retry-wait-max 8s: want it the other way round"},
	{"run --sample --retry-skip-429 maybe", `--retry-skip-429 "maybe": want on or off`},
	{"run --sample --retry-skip-429=maybe", `--retry-skip-429 "maybe": want on or off`},
	{"run --sample --release-cooldown 11m",
		`--release-cooldown "11m": want a duration from 0s to 600s, e.g. 30s or 250ms`},
	{"run --sample --cb-threshold 0", `--cb-threshold "0": want a whole number from 1 to 1000`},
	{"run --sample --cb-open-timeout 20s --cb-max-open-timeout 10s",
		"--cb-open-timeout 20s is above --cb-max-open-timeout 10s: want it the other way round"},
	{"run --sample --circuit-breaker off --cb-threshold 3",
		"--cb-threshold has no effect with --circuit-breaker off: leave out one of the two"},
	{"render istio --cb-penalty 20s --cb-max-penalty 10s",
		"--cb-penalty 20s is above --cb-max-penalty 10s: want it the other way round"},
	{"run --sample --workers 0", `--workers "0": want a whole number from 1 to 100000`},
	{"render", "render what? want `headgate render envoy` or `headgate render istio`"},
	{"render --workers 1", "render what? want `headgate render envoy` or `headgate render istio`"},
	{"render gateway", "render what? want `headgate render envoy` or `headgate render istio`"},
	{"render envoy", "--upstream is missing: where is the model API? e.g. --upstream https://api.example.com"},
	{"check", "check wants one file or more: headgate check FILE... (- is standard input)"},
	{"check --strict", "check wants one file or more: headgate check FILE... (- is standard input)"},
	{"run --sample --tui", "--tui wants standard output to be a terminal: leave it out, and run `headgate top` in one"},
	{"run --sample --tui --access-log", "--tui and --access-log both want standard output: leave out one of them"},
	{"run --sample --tui --admin off", "--tui asks the admin listener: leave out --tui or --admin off"},
	{"top now", "unexpected argument \"now\" (see `headgate help top`)"},
	{"top --admin gateway", `--admin "gateway": want http[s]://HOST:PORT, or HOST:PORT, e.g. 127.0.0.1:10001`},
	{"top --interval 5", `--interval "5": want a duration from 100ms to 1h, e.g. 30s or 250ms`},
	{"top --nonsense", "unknown flag: --nonsense (see `headgate help top`)"},
	{"completion", "completion for which shell? want bash, zsh or fish"},
	{"completion csh", "completion for which shell? want bash, zsh or fish"},
}

// otherErrors are errors of commands that are written as they should be.
var otherErrors = []struct{ args, want string }{
	{"run --sample --wasm no/such.wasm",
		"no wasm module at no/such.wasm: make it with `make build`, or say where it is with --wasm"},
	{"check no/such.json", "open no/such.json: no such file or directory"},
}

func TestErrorsAreOneLineThatSaysWhatToDo(t *testing.T) {
	for want, errors := range map[int][]struct{ args, want string }{2: usageErrors, 1: otherErrors} {
		for _, c := range errors {
			status, out, errs := call("", strings.Fields(c.args)...)
			require.Equal(t, "headgate: "+c.want+"\n", errs, c.args)
			require.Equal(t, want, status, c.args)
			require.Empty(t, out, c.args)
		}
	}
}

func TestHelpAndVersionAreAnswers(t *testing.T) {
	for args, want := range map[string]string{
		"help":                     "headgate check [--strict] FILE...",
		"-h":                       "headgate check [--strict] FILE...",
		"--help":                   "headgate check [--strict] FILE...",
		"run --help":               "--queue-timeout DURATION",
		"help run":                 "--queue-timeout DURATION",
		"help render":              "--upstream URL",
		"render -h":                "--upstream URL",
		"check --help plugin.json": "Usage: headgate check [--strict] FILE...",
		"top --help":               "--interval DURATION",
		"version":                  "headgate ",
		"--version":                "headgate ",
		"run --version":            "headgate ",
		"render --version":         "headgate ",
		"render istio --version":   "headgate ",
	} {
		status, out, errs := call("", strings.Fields(args)...)
		require.Equal(t, 0, status, args)
		require.Contains(t, out, want, args)
		require.Empty(t, errs, args)
	}
}

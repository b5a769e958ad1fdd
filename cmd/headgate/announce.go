package main

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// announce prints how to use the gateway that listens on address.
func (p *runPlan) announce(w io.Writer, address netip.AddrPort, proxy *envoyProcess) {
	url := "http://" + clientAddress(address).String()
	fmt.Fprintf(w, "Headgate is up: %s (model API: %s)\n", url, p.upstreamName())
	if mode := p.modeLine(); mode != "" {
		fmt.Fprintf(w, "Mode:    %s\n", mode)
	}
	mode := p.modeInForce()
	if mode != "disabled" {
		fmt.Fprintf(w, "Limits:  %s\n", p.limitsLine())
	}
	fmt.Fprintf(w, "For:     %s\n", p.forLine())
	fmt.Fprintf(w, "Retries: %s\n", p.retries.describe(mode))
	if p.admin.isOn() {
		fmt.Fprintf(w, "Page:    http://%s/headgate/%s\n", clientAddress(proxy.adminPage), p.movedLine())
	}
	fmt.Fprintf(w, "Numbers: http://%s/stats?filter=wasmcustom.headgate\n", proxy.admin)
	switch {
	case address.Addr().IsLoopback():
	case p.file != nil:
		fmt.Fprintln(w, "Open:    other machines can reach it, and can send the headers that the configuration trusts")
	default:
		fmt.Fprintln(w, "Open:    other machines can reach it, so x-tenant is ignored; all requests are one tenant's")
	}
	if p.file == nil { // what a configuration of one's own governs, and wants to know of a request, its owner knows best
		fmt.Fprintf(w, "\nTry it:\n  %s\n", p.curl(url))
	}
	switch {
	case !p.sample || mode == "disabled":
	case mode == "shadow":
		fmt.Fprintf(w, "See in the numbers what the limits would do, after 8 at once:\n  %s\n", sampleBurst(url))
	default:
		fmt.Fprintf(w, "See the limits, with 8 at once:\n  %s\n", sampleBurst(url))
	}
	fmt.Fprintln(w, "Ctrl-C ends it, once what runs has finished. A second one ends it at once.")
}

// movedLine says why the page is not where it usually is.
func (p *runPlan) movedLine() string {
	if !p.admin.moved {
		return ""
	}
	return " (" + defaultAdmin().String() + " is taken)"
}

// clientAddress is the address that a client on this machine can use for a listener. For a listener on all interfaces
// that is loopback.
func clientAddress(address netip.AddrPort) netip.AddrPort {
	switch address.Addr() {
	case netip.IPv4Unspecified():
		return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), address.Port())
	case netip.IPv6Unspecified():
		return netip.AddrPortFrom(netip.IPv6Loopback(), address.Port())
	}
	return address
}

func (p *runPlan) upstreamName() string {
	if p.sample {
		return "a sample, " + p.upstream.String()
	}
	return p.upstream.String()
}

// modeLine says what the plugin does where that is not its usual work.
func (p *runPlan) modeLine() string {
	return map[string]string{
		"shadow":   "shadow: every request passes, and the stats say what would be refused",
		"disabled": "disabled: every request passes, and nothing is counted",
	}[p.modeInForce()]
}

func (p *runPlan) limitsLine() string {
	if p.file != nil {
		names := make([]string, len(p.file.cfg.Pools))
		for i := range names {
			names[i] = p.file.cfg.Pools[i].Name
		}
		would := ""
		if p.modeInForce() == "shadow" {
			would = "would be "
		}
		return fmt.Sprintf("%sthe pools of %s (%s); it is read again when it changes", would, p.configPath,
			strings.Join(names, ", "))
	}
	atOnce := strconv.Itoa(p.concurrency) + " at once"
	if len(p.limits) > 0 {
		atOnce = "as the patterns say"
	}
	if p.global > 0 {
		atOnce += fmt.Sprintf(", %d in all", p.global)
	}
	waits, gets := "wait", "gets"
	if p.modeInForce() == "shadow" {
		atOnce, waits, gets = "would be "+atOnce, "would wait", "would get"
	}
	if p.queue == 0 {
		return fmt.Sprintf("%s, none %s, the next %s 429", atOnce, waits, gets)
	}
	longest := shortDuration(p.queueTimeout)
	return fmt.Sprintf("%s, %d more %s up to %s, the next %s 429", atOnce, p.queue, waits, longest, gets)
}

func (p *runPlan) forLine() string {
	if p.file != nil && len(p.file.cfg.Routes) == 0 {
		return "every request"
	}
	return p.governed() + "; the rest passes untouched"
}

// governed names the requests that the limits are for.
func (p *runPlan) governed() string {
	if p.file != nil {
		return p.governedByFile()
	}
	if len(p.limits) == 0 {
		return "the well-known model APIs (--print-config lists them), all together"
	}
	return strings.Join(p.routes(), ", ")
}

func (p *runPlan) governedByFile() string {
	routes := p.file.cfg.Routes
	names := make([]string, len(routes))
	for i := range routes {
		names[i] = strings.TrimSpace(routes[i].Method + " /" + strings.Join(routes[i].Segments, "/"))
	}
	return strings.Join(names, ", ")
}

// describe says how often Envoy sends a request again in a mode of the plugin's, and after what.
func (r *retries) describe(mode string) string {
	count := map[int]string{0: "none", unlimited: "unlimited"}[r.count]
	if count == "" {
		count = fmt.Sprintf("up to %d", r.count)
	}
	if !r.enabled() {
		return count
	}
	reasons := "5xx and no answer"
	if !r.skip429 {
		reasons = "5xx, 429 and no answer"
	}
	if mode == "disabled" { // Envoy repeats a try that was answered only where the plugin asks for it
		reasons = "no answer only"
	}
	return fmt.Sprintf("%s, after %s, of requests up to %d MiB", count, reasons, r.maxBodyMB)
}

func (p *runPlan) curl(url string) string {
	key := ""
	if !p.sample {
		key = ` -H "authorization: Bearer $API_KEY"`
	}
	body := chatRequest("Hello", true)
	return "curl -N " + url + p.completions() + key + ` -H 'content-type: application/json' -d '` + body + "'"
}

// completions is the path that a client uses for a chat completion. An upstream's base path may have the /v1 already.
func (p *runPlan) completions() string {
	if strings.HasSuffix(p.upstream.path, "/v1") {
		return "/chat/completions"
	}
	return "/v1/chat/completions"
}

// sampleBurst is a shell line that sends 8 requests at once and prints how each ended, and after how long.
func sampleBurst(url string) string {
	return `for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null -w '%{http_code} after %{time_total} s\n' ` + url +
		`/v1/chat/completions -H 'content-type: application/json' -d '` + chatRequest("Hello", false) + `' & done; wait`
}

// chatRequest is the body of a chat completion request.
func chatRequest(text string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, sampleModel, stream, text)
}

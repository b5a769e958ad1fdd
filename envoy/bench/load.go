package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A traffic is the requests of a round: what connection c sends as its i-th.
type traffic func(c, i int) []byte

const governedPath = "/v1/chat/completions"

// hotTraffic is one tenant's, for one model.
func hotTraffic(_, _ int) []byte { return hotRequest }

// coldTraffic has coldKeys tenants and models in turn, and connections that begin at different ones, so that no key is
// asked for often.
func coldTraffic(c, i int) []byte { return coldRequests[(13*c+7*i)%coldKeys] }

// ungovernedTraffic is what no route pattern matches.
func ungovernedTraffic(_, _ int) []byte { return ungovernedRequest }

const coldKeys = 400

var (
	hotRequest        = request(governedPath, "t", "m")
	ungovernedRequest = request("/v1/models", "t", "m")
	coldRequests      = func() (all [coldKeys][]byte) {
		for i := range all {
			all[i] = request(governedPath, fmt.Sprint("t", i), fmt.Sprint("m", i))
		}
		return all
	}()
)

func request(path, tenant, model string) []byte {
	return fmt.Appendf(nil,
		"POST %s HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\nuser-agent: bench\r\n"+
			"x-tenant: %s\r\nx-model: %s\r\ncontent-length: 2\r\n\r\n{}", path, tenant, model)
}

// load sends that many requests over keep-alive connections, each of which waits for its reply before the next.
func load(port int, sent traffic, requests, connections int) error {
	errs := make([]error, connections)
	var all sync.WaitGroup
	for c := range connections {
		all.Go(func() {
			errs[c] = client(port, requests/connections, func(i int) []byte { return sent(c, i) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func client(port, requests int, sent func(i int) []byte) error {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 30*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for i := range requests {
		if _, err := conn.Write(sent(i)); err != nil {
			return err
		}
		if err := skipReply(in); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// skipReply reads a reply of status 200 with a content length.
func skipReply(in *bufio.Reader) error {
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		return fmt.Errorf("got %q, want 200", strings.TrimSpace(status))
	}
	length, err := skipFields(in)
	if err != nil {
		return err
	}
	_, err = in.Discard(length)
	return err
}

// skipFields reads headers and returns the content length among them.
func skipFields(in *bufio.Reader) (length int, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			return length, nil
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "content-length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, err
			}
		}
	}
}

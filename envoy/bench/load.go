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

// Tenants and models take turns, so that the pools have a few keys each.
const (
	tenants = 16
	models  = 4
)

// load sends that many requests over keep-alive connections, each of which waits for its reply before the next.
func load(port, requests, connections int) error {
	errs := make([]error, connections)
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() { errs[i] = client(port, requests/connections) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func client(port, requests int) error {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for i := range requests {
		if _, err := conn.Write(request(i)); err != nil {
			return err
		}
		if err := skipReply(in); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

func request(i int) []byte {
	return fmt.Appendf(nil,
		"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\nuser-agent: bench\r\n"+
			"x-tenant: tenant-%d\r\nx-model: model-%d\r\ncontent-length: 2\r\n\r\n{}", i%tenants, i%models)
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

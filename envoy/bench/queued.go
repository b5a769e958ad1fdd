package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A queued load: clients that send one request after another to an upstream that takes service for each, through a
// gateway that lets limit run at once.
const (
	limit   = 8
	service = 5 * time.Millisecond
)

// ideal is the rate, in requests a second, of a gateway that takes no time.
const ideal = float64(limit) * float64(time.Second) / float64(service)

// A contender is a gateway with that many clients.
type contender struct {
	name    string
	port    int
	clients int
	rates   []float64 // requests a second, by round
	most    int64     // requests that ran at once
}

// queueLengths are the numbers of clients that compete for the limit.
var queueLengths = []int{64, 512}

// A yard is what the contenders have in common, and the gateways they go through.
type yard struct {
	upstream *slowUpstream
	bare     *gateway
	headgate *gateway
	haproxy  *haproxy // nil: it isn't installed
}

func newYard(o options, dir, haproxyPath, module string) (_ *yard, err error) {
	y := &yard{}
	defer func() {
		if err != nil {
			y.close()
		}
	}()
	if y.upstream, err = newSlowUpstream(); err != nil {
		return nil, err
	}
	if y.bare, err = launch(nil, o.workers, y.upstream.port); err != nil {
		return nil, err
	}
	if y.headgate, err = launch(wasm(module, queuedPools), o.workers, y.upstream.port); err != nil {
		return nil, err
	}
	if haproxyPath != "" {
		y.haproxy, err = launchHAProxy(haproxyPath, dir, o.workers, y.upstream.port)
	}
	return y, err
}

// queuedPools keeps every client that comes.
var queuedPools = fmt.Sprintf(`{"pools": [{"name": "queued", "limit": %d, "queue": 10000, "max_wait": "60s"}]}`, limit)

func (y *yard) close() {
	if y.upstream != nil {
		y.upstream.close()
	}
	for _, g := range []*gateway{y.bare, y.headgate} {
		if g != nil {
			g.Stop()
		}
	}
	if y.haproxy != nil {
		y.haproxy.stop()
	}
}

// contenders begin with those whose clients never queue.
func (y *yard) contenders() []*contender {
	list := []*contender{
		{name: "Envoy without a queue", port: y.bare.port, clients: limit},
		{name: headgateName, port: y.headgate.port, clients: limit},
	}
	for _, clients := range queueLengths {
		list = append(list, &contender{name: headgateName, port: y.headgate.port, clients: clients})
		if y.haproxy != nil {
			list = append(list, &contender{name: haproxyName, port: y.haproxy.port, clients: clients})
		}
	}
	return list
}

const headgateName, haproxyName = "Headgate", "HAProxy"

// measureQueued runs the rounds of all contenders in turns.
func measureQueued(o options, dir, haproxyPath, module string) ([]*contender, error) {
	y, err := newYard(o, dir, haproxyPath, module)
	if err != nil {
		return nil, err
	}
	defer y.close()
	contenders := y.contenders()
	for round := range o.rounds + 1 {
		for _, c := range contenders {
			y.upstream.peak.Store(0)
			rate, err := queuedRound(c, o.seconds)
			if err != nil {
				return nil, fmt.Errorf("%s, %d clients: %w", c.name, c.clients, err)
			}
			c.most = max(c.most, y.upstream.peak.Load())
			if round > 0 { // the first one warms up
				c.rates = append(c.rates, rate)
			}
		}
	}
	return contenders, nil
}

// settle is the part of a round that is not counted: until every client has its connection and its place.
const settle = 300 * time.Millisecond

// queuedRound returns the replies a second that the clients got together.
func queuedRound(c *contender, seconds float64) (float64, error) {
	var replies atomic.Int64
	var stopped atomic.Bool
	errs := make([]error, c.clients)
	var all sync.WaitGroup
	for i := range c.clients {
		all.Go(func() { errs[i] = queuedClient(c.port, &replies, &stopped) })
	}
	time.Sleep(settle)
	from, before := time.Now(), replies.Load()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	n, took := replies.Load()-before, time.Since(from)
	stopped.Store(true)
	all.Wait()
	return float64(n) / took.Seconds(), errors.Join(errs...)
}

func queuedClient(port int, replies *atomic.Int64, stopped *atomic.Bool) error {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 30*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	in, out := bufio.NewReader(conn), hotRequest
	for !stopped.Load() {
		if _, err := conn.Write(out); err != nil {
			return err
		}
		if err := skipReply(in); err != nil {
			return err
		}
		replies.Add(1)
	}
	return nil
}

// A slowUpstream answers every request after the service time, on as many connections as come.
type slowUpstream struct {
	port     int
	listener net.Listener
	running  atomic.Int64
	peak     atomic.Int64
}

func newSlowUpstream() (*slowUpstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &slowUpstream{port: listener.Addr().(*net.TCPAddr).Port, listener: listener}
	go u.accept()
	return u, nil
}

func (u *slowUpstream) close() { u.listener.Close() }

func (u *slowUpstream) accept() {
	for {
		conn, err := u.listener.Accept()
		if err != nil {
			return
		}
		go u.serve(conn)
	}
}

// wholeReply is the whole reply, sent at once.
var wholeReply = []byte("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n" +
	`{"choices":[]}`)

// serve answers what comes on a connection until it ends.
func (u *slowUpstream) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for skipRequest(in) == nil {
		u.raisePeak(u.running.Add(1))
		time.Sleep(service)
		u.running.Add(-1)
		if _, err := conn.Write(wholeReply); err != nil {
			return
		}
	}
}

func (u *slowUpstream) raisePeak(n int64) {
	for {
		peak := u.peak.Load()
		if n <= peak || u.peak.CompareAndSwap(peak, n) {
			return
		}
	}
}

func skipRequest(in *bufio.Reader) error {
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	length, err := skipFields(in)
	if err != nil {
		return err
	}
	_, err = in.Discard(length)
	return err
}

package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"
)

// reachWithin is how long the look for the upstream may take.
const reachWithin = 5 * time.Second

// unreachable says why no connection to the upstream can be made now, or is nil if one can.
func (u *upstream) unreachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.host, strconv.Itoa(int(u.port))))
	if err == nil {
		return connection.Close()
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return errors.New("the name " + u.host + " does not resolve: " + name.Err)
	}
	var call *net.OpError
	if errors.As(err, &call) && call.Timeout() {
		return errors.New("no connection within " + shortDuration(reachWithin))
	}
	for errors.Unwrap(err) != nil { // the innermost says it in the fewest words
		err = errors.Unwrap(err)
	}
	return errors.New("can't connect: " + err.Error())
}

// warnIfUnreachable warns of an upstream to which no connection can be made. The gateway starts all the same: the
// upstream may come later.
func (p *runPlan) warnIfUnreachable(ctx context.Context) {
	err := p.upstream.unreachable(ctx)
	if err != nil && ctx.Err() == nil {
		p.notes.warn("--upstream %s: %v. Until that changes, requests fail", p.upstream, err)
	}
}

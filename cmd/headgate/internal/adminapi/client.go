package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	answerWithin = 3 * time.Second
	keysOnAPage  = 1000
	mostPages    = 200 // of one state: more keys than any configuration allows
	mostBytes    = 64 << 20
	mostEvents   = 500 // in one answer
)

// A Client asks one admin listener.
type Client struct {
	address string // as ParseAddress returns it
	http    http.Client
}

// NewClient returns a client for an address that ParseAddress has returned.
func NewClient(address string) *Client {
	refuseRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{address: address, http: http.Client{Timeout: answerWithin, CheckRedirect: refuseRedirects}}
}

// Address is where the client asks: http://HOST:PORT.
func (c *Client) Address() string { return c.address }

// State returns the state with all keys. It asks for one page after the other, so a key's figures can be some
// milliseconds younger than another's.
func (c *Client) State(ctx context.Context) (*State, error) {
	whole := &State{}
	after := ""
	for range mostPages {
		query := url.Values{"limit": {strconv.Itoa(keysOnAPage)}}
		if after != "" {
			query.Set("after", after)
		}
		page := &State{}
		if err := c.get(ctx, "/headgate/v1/state?"+query.Encode(), page); err != nil {
			return nil, err
		}
		whole.add(page)
		if after = page.Next; after == "" {
			break
		}
	}
	return whole, nil
}

// add adds the keys of a page. What is not of a key comes from the first page.
func (s *State) add(page *State) {
	if s.Pools == nil {
		*s = *page
		s.Next = ""
		return
	}
	for i := range page.Pools {
		more := &page.Pools[i]
		known := s.pool(more.Name)
		if known == nil {
			s.Pools = append(s.Pools, *more)
			continue
		}
		known.Keys = append(known.Keys, more.Keys...)
	}
}

func (s *State) pool(name string) *Pool {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}

// Events returns what has an id greater than after, oldest first, as far as the listener remembers it. Last of the
// answer is where to go on. A listener that has started anew counts from the beginning: its last is then below after.
func (c *Client) Events(ctx context.Context, after int64) (*Events, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(mostEvents)}}
	events := &Events{}
	if err := c.get(ctx, "/headgate/v1/events?"+query.Encode(), events); err != nil {
		return nil, err
	}
	if n := len(events.Events); n >= mostEvents { // there may be more
		events.Last = events.Events[n-1].ID
	}
	return events, nil
}

// SetLimit changes the limit of a key, or of a pool's default where key is "". A nil limit goes back to the
// configuration. A refusal is a *Refusal, and nothing is changed then.
func (c *Client) SetLimit(ctx context.Context, pool, key string, limit *int64) error {
	change := map[string]any{"pool": pool, "limit": limit}
	if key != "" {
		change["key"] = key
	}
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.address+"/headgate/v1/limits", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	return c.do(request, nil)
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+path, nil)
	if err != nil {
		return err
	}
	return c.do(request, into)
}

// do sends the request and reads the answer. nil: what a good answer says is not wanted.
func (c *Client) do(request *http.Request, into any) error {
	reply, err := c.http.Do(request)
	if err != nil {
		return &Unreachable{c.address, err}
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, mostBytes))
	if err != nil {
		return &Unreachable{c.address, err}
	}
	if reply.StatusCode != http.StatusOK {
		return c.refusal(reply.StatusCode, body)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s is no admin listener of Headgate's: %w", c.address, err)
	}
	return nil
}

// A Refusal is the listener's own error.
type Refusal struct {
	Status  int
	Field   string
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func (c *Client) refusal(status int, body []byte) error {
	var answer struct {
		Error struct{ Field, Message string }
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error.Message == "" {
		return fmt.Errorf("%s is no admin listener of Headgate's: it answers %d", c.address, status)
	}
	return &Refusal{Status: status, Field: answer.Error.Field, Message: answer.Error.Message}
}

// Unreachable is the error of a listener that gave no answer.
type Unreachable struct {
	Address string
	cause   error
}

func (u *Unreachable) Error() string { return "can't reach " + u.Address + ": " + u.Reason() }

func (u *Unreachable) Unwrap() error { return u.cause }

// Reason is why, in a few words, without the address.
func (u *Unreachable) Reason() string {
	var number syscall.Errno
	var failed *url.Error
	switch {
	case errors.As(u.cause, &number):
		return number.Error()
	case os.IsTimeout(u.cause):
		return fmt.Sprintf("no answer within %v", answerWithin)
	case errors.As(u.cause, &failed):
		return failed.Err.Error()
	}
	return u.cause.Error()
}

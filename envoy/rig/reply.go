package rig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"
)

// ErrCut says that the connection ended before the reply was whole.
var ErrCut = errors.New("the reply was cut")

// A Reply is what a client got.
type Reply struct {
	Status  int   // 0: nothing came
	Interim []int // the interim statuses (1xx) before it
	Head    []string
	Header  http.Header
	Body    []byte
	Trailer http.Header
	Err     error // why the reply isn't whole
	Start   time.Time
	First   time.Time // the status line came; zero: never
	End     time.Time
}

// Reason is the x-headgate-reason, "" without one.
func (r *Reply) Reason() string { return r.Header.Get("x-headgate-reason") }

// Took is the time from the request to the end of the reply.
func (r *Reply) Took() time.Duration { return r.End.Sub(r.Start) }

func (r *Reply) String() string {
	text := fmt.Sprintf("%d %s after %v", r.Status, r.Reason(), r.Took().Round(time.Millisecond))
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// readHead reads a final status line and the headers; interim replies are noted. Names are kept as sent in Head.
func (r *Reply) readHead(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return cut(err)
		}
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(fields) < 2 {
			return fmt.Errorf("bad status line %q", line)
		}
		status, err := strconv.Atoi(fields[1])
		if err != nil {
			return fmt.Errorf("bad status line %q", line)
		}
		head, header, err := readFields(in)
		if err != nil {
			return err
		}
		if status < 200 && status != http.StatusSwitchingProtocols {
			r.Interim = append(r.Interim, status)
		} else {
			r.First, r.Status, r.Head, r.Header = time.Now(), status, head, header
			return nil
		}
	}
}

func readFields(in *bufio.Reader) ([]string, http.Header, error) {
	var lines []string
	header := http.Header{}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, nil, cut(err)
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			return lines, header, nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, nil, fmt.Errorf("bad header line %q", line)
		}
		lines = append(lines, line)
		header.Add(name, strings.TrimSpace(value))
	}
}

// body returns what to read the body from; nil if there is none.
func (r *Reply) body(in *bufio.Reader, method string) io.Reader {
	if method == http.MethodHead || r.Status == http.StatusSwitchingProtocols || r.Status == http.StatusNoContent ||
		r.Status == http.StatusNotModified {
		return nil
	}
	if r.chunked() {
		return httputil.NewChunkedReader(in)
	}
	if size, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil {
		return &exactly{in: in, left: size}
	}
	return in
}

func (r *Reply) chunked() bool {
	return strings.EqualFold(r.Header.Get("Transfer-Encoding"), "chunked")
}

// exactly reads so many bytes and calls an earlier end a cut.
type exactly struct {
	in   io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.in.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

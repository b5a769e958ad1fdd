package rig

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// spansOf reads the requests out of packets.
func spansOf(packets []packet, err error) ([]Span, error) {
	if err != nil {
		return nil, err
	}
	all, err := conversations(packets)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, c := range all {
		of := c.http1
		if bytes.HasPrefix(c.request.data, []byte(http2.ClientPreface)) {
			of = c.http2
		}
		more, err := of()
		if err != nil {
			return nil, err
		}
		spans = append(spans, more...)
	}
	return spans, nil
}

// ends ends a span if it hasn't ended before.
func (s *Span) ends(at Moment, by string) {
	if s.Ended == "" || at.Order < s.End.Order {
		s.End, s.Ended = at, by
	}
}

// closed ends a span with its connection.
func (c *conversation) closed(s *Span) {
	for side, f := range map[string]*flow{"Envoy": &c.request, "the upstream": &c.answer} {
		if f.end == nil || f.end.Order < s.Start.Order {
			continue
		}
		by := side + "'s FIN"
		if f.reset {
			by = side + "'s RST"
		}
		s.ends(*f.end, by)
	}
}

// idOf is the id of the script in a request's target.
func idOf(target string) string {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return target
	}
	script, err := scriptOf(&http.Request{URL: u})
	if err != nil {
		return target
	}
	return script.ID
}

// A reading reads messages out of a flow, and knows how far it is.
type reading struct {
	*bufio.Reader
	rest *bytes.Reader
	size int
}

func readingOf(data []byte) reading {
	rest := bytes.NewReader(data)
	return reading{bufio.NewReader(rest), rest, len(data)}
}

// at is the index of the next byte.
func (r reading) at() int { return r.size - r.rest.Len() - r.Buffered() }

// http1 reads the requests of a connection and the ends of their answers. What was cut, or closes without saying so,
// ends with the connection.
func (c *conversation) http1() ([]Span, error) {
	var spans []Span
	in, out := readingOf(c.request.data), readingOf(c.answer.data)
	for answering := true; ; {
		if _, err := in.Peek(1); err != nil {
			return spans, nil
		}
		start := in.at()
		request, err := http.ReadRequest(in.Reader)
		if err != nil {
			return nil, fmt.Errorf("a request over HTTP/1: %w", err)
		}
		span := Span{ID: idOf(request.RequestURI), Start: c.request.moment(start)}
		if answering = answering && readAnswer(out, request); answering {
			span.ends(c.answer.moment(out.at()-1), "its answer")
		}
		c.closed(&span)
		spans = append(spans, span)
		if _, err := io.Copy(io.Discard, request.Body); err != nil || request.Header.Get("Upgrade") != "" {
			return spans, nil
		}
	}
}

// readAnswer reads one answer, interim ones before it included; false if it isn't whole, or has no end of its own.
func readAnswer(out reading, request *http.Request) bool {
	for {
		response, err := http.ReadResponse(out.Reader, request)
		if err != nil {
			return false
		}
		if status := response.StatusCode; status < 200 && status != http.StatusSwitchingProtocols {
			response.Body.Close()
			continue
		}
		ends := response.ContentLength >= 0 || len(response.TransferEncoding) > 0
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return err == nil && ends && response.StatusCode != http.StatusSwitchingProtocols
	}
}

// http2 reads the streams of a connection.
func (c *conversation) http2() ([]Span, error) {
	spans := map[uint32]*Span{}
	err := eachFrame(c.request.data[len(http2.ClientPreface):], func(from, to int, frame http2.Frame) {
		from, to = from+len(http2.ClientPreface), to+len(http2.ClientPreface)
		id := frame.Header().StreamID
		span := spans[id]
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if span == nil {
				spans[id] = &Span{ID: idOf(f.PseudoValue("path")), Start: c.request.moment(from)}
			}
		case *http2.RSTStreamFrame:
			if span != nil {
				span.ends(c.request.moment(to-1), "Envoy's RST_STREAM")
			}
		}
	})
	if err != nil {
		return nil, err
	}
	err = eachFrame(c.answer.data, func(_, to int, frame http2.Frame) {
		span, head := spans[frame.Header().StreamID], frame.Header()
		if span == nil {
			return
		}
		_, isReset := frame.(*http2.RSTStreamFrame)
		switch {
		case isReset:
			span.ends(c.answer.moment(to-1), "the upstream's RST_STREAM")
		case head.Flags.Has(http2.FlagDataEndStream) && (head.Type == http2.FrameData || head.Type == http2.FrameHeaders):
			span.ends(c.answer.moment(to-1), "its answer")
		}
	})
	var all []Span
	for _, span := range spans {
		c.closed(span)
		all = append(all, *span)
	}
	return all, err
}

// eachFrame reads frames, the last of which may be cut.
func eachFrame(data []byte, do func(from, to int, f http2.Frame)) error {
	in := bytes.NewReader(data)
	framer := http2.NewFramer(io.Discard, in)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.SetMaxReadFrameSize(1<<24 - 1)
	for {
		from := len(data) - in.Len()
		frame, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a frame of HTTP/2: %w", err)
		}
		do(from, len(data)-in.Len(), frame)
	}
}

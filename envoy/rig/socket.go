package rig

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
)

// AcceptSocket is an upstream's part of a WebSocket's opening, as in RFC 6455. The caller closes the connection.
func AcceptSocket(w http.ResponseWriter, r *http.Request) (net.Conn, *bufio.ReadWriter, error) {
	accept := sha1.Sum([]byte(r.Header.Get("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"+
		"sec-websocket-accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(accept[:]))
	return connection, buffered, err
}

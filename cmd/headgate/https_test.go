package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	bundle      string // the file with its own certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{bundle: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, KeyUsage: x509.KeyUsageCertSign,
		IsCA: true, BasicConstraintsValid: true,
	}
	der, key := sign(t, template, template, nil)
	a.key = key
	var err error
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(a.bundle, block, 0o600))
	return a
}

// sign makes a certificate with a new key. The key signer signs it, or, if that is nil, the new key itself.
func sign(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	return der, key
}

// serve starts an HTTPS server with a certificate for name only. Its reply is the name that the client sent as SNI.
func (a *authority) serve(t *testing.T, name string) uint16 {
	t.Helper()
	return a.start(t, name, httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.ServerName)
	})))
}

// serveEither is serve for a server that also speaks HTTP/2, and answers gRPC.
func (a *authority) serveEither(t *testing.T, name string) uint16 {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(answerEither))
	server.EnableHTTP2 = true
	return a.start(t, name, server)
}

func (a *authority) start(t *testing.T, name string, server *httptest.Server) (port uint16) {
	t.Helper()
	der, key := sign(t, &x509.Certificate{DNSNames: []string{name}}, a.certificate, a.key)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return loopbackPort(t, server.Listener)
}

func TestRunSendsSNIAndVerifiesTheUpstreamsCertificate(t *testing.T) {
	right, wrong := newAuthority(t), newAuthority(t)
	for _, c := range []struct {
		what   string
		name   string // in the certificate
		trust  *authority
		status int
	}{
		{"the host's certificate", "localhost", right, http.StatusOK},
		{"a certificate of an authority that is not trusted", "localhost", wrong, http.StatusServiceUnavailable},
		{"another host's certificate", "other.example.com", right, http.StatusServiceUnavailable},
	} {
		port := right.serve(t, c.name)
		url := fmt.Sprintf("https://localhost:%d", port)
		h := runGateway(t, []string{"SSL_CERT_FILE=" + c.trust.bundle}, "--upstream", url)
		reply := h.send("/v1/chat/completions", false)
		require.Equal(t, c.status, reply.StatusCode, c.what)
		if c.status == http.StatusOK {
			require.Equal(t, "localhost", whole(t, reply.Body))
		}
		require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	}
}

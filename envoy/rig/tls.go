package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// An Authority issues the certificates of a TLS listener and its clients.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	server      tls.Certificate
}

// NewAuthority makes an authority that only this test trusts.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	a.certificate = &x509.Certificate{Subject: pkix.Name{CommonName: "rig authority"}, IsCA: true,
		BasicConstraintsValid: true}
	made := a.issue(t, a.certificate)
	a.certificate, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	a.server = a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "gateway"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	return a
}

// Client issues a client's certificate with the names of the template.
func (a *Authority) Client(t testing.TB, template x509.Certificate) *tls.Certificate {
	t.Helper()
	made := a.issue(t, &template)
	return &made
}

// issue signs a certificate; the authority's own with the key that is made for it.
func (a *Authority) issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *Authority) client(conn net.Conn, as *tls.Certificate) *tls.Conn {
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	config := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
	if as != nil {
		config.Certificates = []tls.Certificate{*as}
	}
	return tls.Client(conn, config)
}

// withTLS makes a listener speak TLS. A client may come without a certificate, but with none of another authority.
func withTLS(listener Object, a *Authority) {
	chain := listener["filter_chains"].([]Object)[0]
	chain["transport_socket"] = Object{"name": "envoy.transport_sockets.tls", "typed_config": Object{
		"@type": typePrefix + "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"common_tls_context": Object{
			"tls_certificates": []Object{{"certificate_chain": inline(certificatePEM(a.server.Leaf)),
				"private_key": inline(keyPEM(a.server))}},
			"validation_context": Object{"trusted_ca": inline(certificatePEM(a.certificate))},
		},
	}}
}

func inline(text string) Object { return Object{"inline_string": text} }

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func keyPEM(c tls.Certificate) string {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		panic(err) // a key that was just made
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

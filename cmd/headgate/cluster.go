package main

import (
	"errors"
	"fmt"
	"os"
)

// setClusters makes the bootstrap's clusters and all of its routes lead to the upstream.
func (u *upstream) setClusters(e *yamlEdit) error {
	for _, route := range []string{grpcRoutePath, routePath, otherRoutePath} {
		e.set(route+"host_rewrite_literal", u.authority())
		e.set(route+"prefix_rewrite", u.path+"/")
	}
	if u.path != "" {
		e.set(connectionPath+"normalize_path", true) // so that no dot segment leads out of the base path
	}
	for _, cluster := range clusterPaths {
		e.setAddress(cluster+clusterEndpoint, u.host, u.port)
		if !u.isAddress() {
			// LOGICAL_DNS resolves the name for each new connection, and ALL tries IPv6 and IPv4. That suits a large
			// service whose addresses change often, and localhost.
			e.set(cluster+"type", "LOGICAL_DNS")
			e.set(cluster+"dns_lookup_family", "ALL")
		}
	}
	if !u.tls {
		return nil
	}
	bundle, err := caBundle()
	if err != nil {
		return err
	}
	e.set(clusterPath+"transport_socket", u.tlsSocket(bundle))
	e.set(grpcClusterPath+"transport_socket", u.tlsSocket(bundle, "h2"))
	return nil
}

// A tlsSocket is Envoy's TLS for connections to the upstream. It accepts only a certificate for the upstream's own
// host.
type tlsSocket struct {
	Name   string     `yaml:"name"`
	Config tlsContext `yaml:"typed_config"`
}

type tlsContext struct {
	Type   string `yaml:"@type"`
	SNI    string `yaml:"sni,omitempty"`
	Common struct {
		Protocols  []string      `yaml:"alpn_protocols,omitempty"`
		Validation tlsValidation `yaml:"validation_context"`
	} `yaml:"common_tls_context"`
}

type tlsValidation struct {
	CA    map[string]string `yaml:"trusted_ca"`
	Names []tlsName         `yaml:"match_typed_subject_alt_names"`
}

type tlsName struct {
	Kind    string            `yaml:"san_type"`
	Matcher map[string]string `yaml:"matcher"`
}

// tlsSocket returns it. protocols are what the upstream has to choose from (ALPN), if anything.
func (u *upstream) tlsSocket(bundle string, protocols ...string) tlsSocket {
	name := tlsName{"DNS", map[string]string{"exact": u.host}}
	const contextType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	context := tlsContext{Type: contextType, SNI: u.host}
	if u.isAddress() {
		name.Kind, context.SNI = "IP_ADDRESS", "" // SNI carries names only
	}
	context.Common.Protocols = protocols
	context.Common.Validation = tlsValidation{map[string]string{"filename": bundle}, []tlsName{name}}
	return tlsSocket{"envoy.transport_sockets.tls", context}
}

// caBundles are the files in which systems keep the certificate authorities that they trust. The list is that of Go's
// crypto/x509.
var caBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, BSD
}

// caBundle is the file of trusted authorities: $SSL_CERT_FILE if it is set, otherwise the system's.
func caBundle() (string, error) {
	if named := os.Getenv("SSL_CERT_FILE"); named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("$SSL_CERT_FILE can't be read: %w", err)
		}
		return named, nil
	}
	for _, path := range caBundles {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no CA bundle in the usual places, so https can't be verified: name one in $SSL_CERT_FILE")
}

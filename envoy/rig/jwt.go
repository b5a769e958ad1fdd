package rig

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"testing"
	"time"
)

// A TokenIssuer signs JSON web tokens (RS256) that its Filter verifies.
type TokenIssuer struct{ key *rsa.PrivateKey }

// JWTNamespace is where the filter leaves the claims: below "payload".
const JWTNamespace = "envoy.filters.http.jwt_authn"

const issuerName = "rig"

// NewTokenIssuer makes an issuer with a key of its own.
func NewTokenIssuer(t testing.TB) *TokenIssuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &TokenIssuer{key: key}
}

// Filter is Envoy's jwt_authn with the issuer's public key in a local key set. A request without a token is refused,
// unless tokens are optional. A request with an invalid token is always refused.
func (i *TokenIssuer) Filter(optional bool) Object {
	requires := Object{"provider_name": issuerName}
	if optional {
		requires = Object{"requires_any": Object{"requirements": []Object{requires, {"allow_missing": Object{}}}}}
	}
	return Filter(JWTNamespace, "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication", Object{
		"providers": Object{issuerName: Object{"issuer": issuerName, "payload_in_metadata": "payload",
			"local_jwks": inline(i.keySet())}},
		"rules": []Object{{"match": Object{"prefix": "/"}, "requires": requires}},
	})
}

func (i *TokenIssuer) keySet() string {
	e := big.NewInt(int64(i.key.E)).Bytes()
	text, err := json.Marshal(Object{"keys": []Object{{"kty": "RSA", "alg": "RS256", "kid": "rig",
		"n": base64url(i.key.N.Bytes()), "e": base64url(e)}}})
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// Token is a signed token with these claims, besides the issuer and an end in an hour, unless they name them.
func (i *TokenIssuer) Token(t testing.TB, claims Object) string {
	t.Helper()
	payload := Object{"iss": issuerName, "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		payload[name] = value
	}
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	signed := base64url([]byte(`{"alg":"RS256","typ":"JWT","kid":"rig"}`)) + "." + base64url(text)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64url(signature)
}

// Bearer is the header that carries a token with these claims.
func (i *TokenIssuer) Bearer(t testing.TB, claims Object) Field {
	t.Helper()
	return Field{"authorization", "Bearer " + i.Token(t, claims)}
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

package configcheck

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Bounds of a key set.
const (
	MaxJWKSBytes = 256 << 10
	MaxJWKSKeys  = 64
)

// SigningKey is a public key of an issuer.
type SigningKey struct {
	ID        string // kid, may be empty
	Algorithm configv1.JWTAlgorithm
	Key       any // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// ParseJWKS reads a JSON Web Key Set (RFC 7517, section 5). It takes keys for
// RS256 (RSA of 2,048 to 16,384 bits), ES256 (P-256) and EdDSA (Ed25519) that
// are for signatures, and passes over keys of other kinds and uses, as section 5
// asks. It fails if the set is malformed, too large, holds private or symmetric
// key material, or no key is left. The error says nothing of the key material.
func ParseJWKS(raw string) ([]SigningKey, error) {
	if len(raw) > MaxJWKSBytes {
		return nil, fmt.Errorf("the key set has %d bytes; %d is the most", len(raw), MaxJWKSBytes)
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal([]byte(raw), &set); err != nil {
		return nil, errors.New(`the key set is no JSON object with a list "keys" of key objects without duplicate names (RFC 7517, section 5)`)
	}
	if len(set.Keys) > MaxJWKSKeys {
		return nil, fmt.Errorf("the key set has %d keys; %d is the most", len(set.Keys), MaxJWKSKeys)
	}
	var keys []SigningKey
	seen := map[string]bool{}
	for i, k := range set.Keys {
		if k.private() {
			return nil, fmt.Errorf("key %d holds private or symmetric key material; publish public keys only, and replace this one", i)
		}
		key, ok, err := k.public()
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		if !ok {
			continue
		}
		if key.ID != "" && seen[key.ID] {
			return nil, fmt.Errorf("key %d: another key has the same kid", i)
		}
		seen[key.ID] = true
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set holds no signing key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

// jwk is the part of a key that says what it is; D, P, Q, DP, DQ, QI, Oth and K
// are private (RFC 7518, sections 6.2.2, 6.3.2, 6.4.1).
type jwk struct {
	Kty string         `json:"kty"`
	Use string         `json:"use"`
	Ops []string       `json:"key_ops"`
	Alg string         `json:"alg"`
	Kid string         `json:"kid"`
	Crv string         `json:"crv"`
	N   string         `json:"n"`
	E   string         `json:"e"`
	X   string         `json:"x"`
	Y   string         `json:"y"`
	D   jsontext.Value `json:"d"`
	P   jsontext.Value `json:"p"`
	Q   jsontext.Value `json:"q"`
	DP  jsontext.Value `json:"dp"`
	DQ  jsontext.Value `json:"dq"`
	QI  jsontext.Value `json:"qi"`
	Oth jsontext.Value `json:"oth"`
	K   jsontext.Value `json:"k"`
}

func (k *jwk) private() bool {
	for _, v := range [...]jsontext.Value{k.D, k.P, k.Q, k.DP, k.DQ, k.QI, k.Oth, k.K} {
		if v != nil {
			return true
		}
	}
	return k.Kty == "oct"
}

func (k *jwk) public() (SigningKey, bool, error) {
	out := SigningKey{ID: k.Kid}
	if k.Use != "" && k.Use != "sig" || len(k.Kid) > 256 {
		return out, false, nil
	}
	if len(k.Ops) > 0 {
		verifies := false
		for _, op := range k.Ops {
			verifies = verifies || op == "verify"
		}
		if !verifies {
			return out, false, nil
		}
	}
	switch {
	case k.Kty == "RSA" && (k.Alg == "" || k.Alg == "RS256"):
		n, e := number(k.N), number(k.E)
		if n == nil || e == nil || n.BitLen() < 2048 || n.BitLen() > 16384 || n.Bit(0) == 0 ||
			!e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 || e.Bit(0) == 0 {
			return out, false, errors.New("an RSA key needs a modulus of 2,048 to 16,384 bits and an odd exponent from 3 to 2^31-1 (RFC 7518, section 6.3.1)")
		}
		out.Algorithm, out.Key = configv1.JWTAlgorithm_JWT_ALGORITHM_RS256, &rsa.PublicKey{N: n, E: int(e.Int64())}
	case k.Kty == "EC" && k.Crv == "P-256" && (k.Alg == "" || k.Alg == "ES256"):
		x, errX := base64.RawURLEncoding.DecodeString(k.X)
		y, errY := base64.RawURLEncoding.DecodeString(k.Y)
		if errX != nil || errY != nil || len(x) != 32 || len(y) != 32 {
			return out, false, errors.New("a P-256 key needs x and y of 32 bytes each (RFC 7518, section 6.2.1)")
		}
		pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), bytes.Join([][]byte{{4}, x, y}, nil))
		if err != nil {
			return out, false, errors.New("the point of a P-256 key is not on the curve")
		}
		out.Algorithm, out.Key = configv1.JWTAlgorithm_JWT_ALGORITHM_ES256, pub
	case k.Kty == "OKP" && k.Crv == "Ed25519" && (k.Alg == "" || k.Alg == "EdDSA" || k.Alg == "Ed25519"):
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return out, false, errors.New("an Ed25519 key needs x of 32 bytes (RFC 8037, section 2)")
		}
		out.Algorithm, out.Key = configv1.JWTAlgorithm_JWT_ALGORITHM_EDDSA, ed25519.PublicKey(x)
	default:
		return out, false, nil
	}
	return out, true, nil
}

// number reads a Base64urlUInt (RFC 7518, section 2), nil if it is none.
func number(s string) *big.Int {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return new(big.Int).SetBytes(raw)
}

func issuerAlone(l *list, is *configv1.JWTIssuer) {
	who := subjectOf(is)
	if u, err := url.Parse(is.GetIssuer()); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		l.add(who, "issuer", "issuer.url", "the issuer is an https URL without user info, query and fragment, exactly as the iss claim has it")
	}
	if len(is.GetAudiences()) == 0 {
		l.add(who, "audiences", "issuer.audiences", "name at least one aud value; without it a token made for another service would do")
	}
	switch {
	case is.GetJwksJson() != "":
		if _, err := ParseJWKS(is.GetJwksJson()); err != nil {
			l.add(who, "jwks_json", "issuer.jwks", "%v", err)
		}
	case is.GetJwksUrl() == "":
		l.add(who, "jwks_json", "issuer.jwks", "give the key set in jwks_json, or the address it is fetched from in jwks_url")
	}
	if raw := is.GetJwksUrl(); raw != "" {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			l.add(who, "jwks_url", "issuer.jwks_url", "give an https URL without user info and fragment")
		} else if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.Unmap().IsLinkLocalUnicast() {
			l.add(who, "jwks_url", "url.private_address", "%s is a link-local address; use the issuer's host name", quote(u.Hostname()))
		}
	}
}

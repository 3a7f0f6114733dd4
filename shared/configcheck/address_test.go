package configcheck

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func TestPrivateHostsInEverySpelling(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true, "169.254.169.254": true, "100.64.0.1": true,
		"0.0.0.0": true, "::1": true, "::": true, "fe80::1": true, "fe80::1%eth0": true, "fd00::1": true, "::ffff:10.0.0.1": true,
		"64:ff9b::7f00:1": true, "64:ff9b:1::1": true, "224.0.0.1": true, "255.255.255.255": true, "240.0.0.1": true, "198.18.0.1": true, "localhost": true, "LocalHost.": true,
		"x.localhost": true, "127.1": true, "2130706433": true, "0x7f000001": true, "0177.0.0.1": true, "": true,
		"8.8.8.8": false, "172.32.0.1": false, "100.128.0.1": false, "2606:4700::1": false, "64:ff9b::808:808": false,
		"api.openai.com": false, "localhost.example.com": false, "1.example": false,
	} {
		if got := PrivateHost(host); got != want {
			t.Errorf("PrivateHost(%q) = %v, want %v", host, got, want)
		}
	}
	if !PrivateAddress(netip.Addr{}) {
		t.Error("an invalid address is taken for a public one")
	}
}

func TestHeadersThatConfigurationMustNotTouch(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Host": true, "CONNECTION": true, "te": true, "Transfer-Encoding": true, "Authorization": true, "X-Api-Key": true,
		"x-goog-api-key": true, "Cookie": true, "X-Gateway-Options": true, "anthropic-beta": false, "User-Agent": false,
	} {
		if _, got := ForbiddenHeader(name); got != want {
			t.Errorf("ForbiddenHeader(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestKeySetsHoldPublicSigningKeysOnly(t *testing.T) {
	t.Parallel()
	b64 := base64.RawURLEncoding.EncodeToString
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	ecKey := fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"e","x":%q,"y":%q`, b64(point[1:33]), b64(point[33:]))
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey := fmt.Sprintf(`{"kty":"RSA","kid":"r","n":%q,"e":%q`, b64(rs.N.Bytes()), b64(big.NewInt(int64(rs.E)).Bytes()))
	set := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

	keys, err := ParseJWKS(set(ecKey+"}", rsaKey+`,"alg":"RS256"}`, `{"kty":"EC","crv":"P-521"}`, rsaKey+`,"use":"enc"}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || keys[0].Algorithm != configv1.JWTAlgorithm_JWT_ALGORITHM_ES256 || !rs.PublicKey.Equal(keys[1].Key.(*rsa.PublicKey)) {
		t.Errorf("got %v, want the P-256 and the RSA key", keys)
	}
	for name, bad := range map[string]string{
		"private":        set(ecKey + `,"d":"AAAA"}`),
		"private null":   set(ecKey + `,"d":null}`),
		"symmetric":      set(`{"kty":"oct","k":"AAAA"}`),
		"unusable":       set(rsaKey + `,"use":"enc"}`),
		"twice the kid":  set(ecKey+"}", ecKey+"}"),
		"short modulus":  set(`{"kty":"RSA","n":"AQAB","e":"AQAB"}`),
		"off the curve":  set(fmt.Sprintf(`{"kty":"EC","crv":"P-256","x":%q,"y":%q}`, b64(point[1:33]), b64(point[1:33]))),
		"duplicate name": `{"keys":[],"keys":[]}`,
		"trailing":       set(ecKey+"}") + "x",
		"no set":         `[]`,
		"too large":      strings.Repeat(" ", MaxJWKSBytes+1),
	} {
		if keys, err := ParseJWKS(bad); err == nil {
			t.Errorf("%s: accepted as %v", name, keys)
		} else if strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: the error shows key material: %v", name, err)
		}
	}
}

func TestWarningsNameWhatIsOftenAMistake(t *testing.T) {
	t.Parallel()
	v := fixture()
	ten := v.Tenants[t1]
	codes := func() map[string][]string {
		got := map[string][]string{}
		for _, w := range Warnings(ten, v.GlobalShard) {
			got[w.Code] = append(got[w.Code], w.ID)
		}
		return got
	}
	got := codes()
	if len(got[WarnSinglePoint]) != 1 || got[WarnSinglePoint][0] != "upm_3" || len(got) != 1 {
		t.Errorf("got %v, want one SINGLE_POINT for the local model", got)
	}
	ten.Credentials[1].Priority = proto.Int32(5)
	ten.Tenant.Scheduling = &configv1.SchedulingPolicy{ResetBonusNusd: proto.Int64(1)}
	ten.Routes[0].Scheduling.SwitchOn_400 = proto.Bool(true)
	got = codes()
	if len(got[WarnStarvedPriority]) != 2 || got[WarnSoonestReset][0] != t1 || got[WarnSwitchOn400][0] != "rte_1" {
		t.Errorf("got %v, want STARVED_PRIORITY for both names, SOONEST_RESET, SWITCH_ON_400", got)
	}
	ten.Credentials[0].Limits = &configv1.Limits{Rpm: proto.Int64(1)}
	if got := codes(); len(got[WarnStarvedPriority]) != 0 {
		t.Errorf("a bounded priority is not starving others: %v", got)
	}
	if got := Warnings(&syncv1.TenantShard{}, nil); len(got) != 0 {
		t.Errorf("an empty tenant warns: %v", got)
	}
}

func BenchmarkCheckChangedTenant(b *testing.B) {
	v := fixture()
	v.Index()
	c := newChecker(b, Config{CrossDomain: true})
	b.ReportAllocs()
	for b.Loop() {
		c.CheckChanged(v, []string{"tenant/" + t1})
	}
}

func BenchmarkCheckChangedKey(b *testing.B) {
	v := fixture()
	v.Index()
	c := newChecker(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		c.CheckChanged(v, []string{"key/" + sum1})
	}
}

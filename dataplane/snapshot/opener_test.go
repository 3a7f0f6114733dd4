package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func contentKey(t testing.TB) (seal.ContentKey, *syncv1.ContentKey) {
	t.Helper()
	k, err := seal.NewContentKey()
	if err != nil {
		t.Fatal(err)
	}
	return k, &syncv1.ContentKey{Id: k.ID, Key: []byte(k.Key().Reveal())}
}

func sealed(t testing.TB, k seal.ContentKey, tenant, id string, version int64, text string) []byte {
	t.Helper()
	b, err := seal.SealWith(k, secret.New(text), seal.Context{Tenant: tenant, ID: id, Version: uint64(version)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func credEdit(tenant string, secrets ...*syncv1.SealedSecret) edit {
	return edit{key: shard.Credentials(tenant), message: &syncv1.CredentialShard{TenantId: tenant, Secrets: secrets}}
}

func TestSecretsOpenWithTheKeysOfTheFleetAndAfterARestartWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		k, wire := contentKey(t)
		p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}, PrefixSeed: []byte("seed"), MacKeys: []*syncv1.ContentKey{{Id: "m1", Key: []byte("mac")}}}
		p.commit(tenantEdit("t1"), subjectEdit("t1"), credEdit("t1",
			&syncv1.SealedSecret{CredentialId: "c1", Version: 3, Sealed: sealed(t, k, "t1", "c1", 3, "sk-1"), SealedProxy: sealed(t, k, "t1", "c1", 3, "proxy")},
			&syncv1.SealedSecret{CredentialId: "c2", Version: 1, Sealed: sealed(t, k, "t1", "other", 1, "sk-2")},
			&syncv1.SealedSecret{UpstreamId: "u1", Version: 1, SealedProxy: sealed(t, k, "t1", "u1", 1, "up")},
		))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		check := func() {
			t.Helper()
			v := n.settled()
			s := v.Secret("t1", "c1")
			if text, err := s.Open(); err != nil || text.Reveal() != "sk-1" {
				t.Errorf("secret: %q, %v", text.Reveal(), err)
			}
			if text, err := s.OpenProxy(); err != nil || text.Reveal() != "proxy" || !s.HasProxy() {
				t.Errorf("proxy password: %q, %v", text.Reveal(), err)
			}
			if text, err := v.ProxySecret("t1", "u1").OpenProxy(); err != nil || text.Reveal() != "up" {
				t.Errorf("proxy password of the upstream: %q, %v", text.Reveal(), err)
			}
			if text, err := v.Secret("t1", "c2").Open(); !errors.Is(err, seal.ErrOpen) {
				t.Errorf("a secret sealed for another credential opens: %q, %v", text.Reveal(), err)
			}
			if n.PrefixSeed().Reveal() != "seed" || len(n.MACKeys()) != 1 || n.MACKeys()[0].Key.Reveal() != "mac" {
				t.Error("fleet secrets are missing")
			}
		}
		check()
		p.cut(true)
		n.stop()
		n = start(t, p, options{dir: dir})
		check()
	})
}

func TestG14NoSecretIsReadableOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		k, wire := contentKey(t)
		p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}, PrefixSeed: []byte("the seed of the fleet"), MacKeys: []*syncv1.ContentKey{{Id: "m1", Key: []byte("the mac key")}}}
		p.commit(tenantEdit("t1"), subjectEdit("t1"), credEdit("t1", &syncv1.SealedSecret{CredentialId: "c1", Version: 1, Sealed: sealed(t, k, "t1", "c1", 1, "sk-in-clear-text")}))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		if _, err := n.holder.Load().Secret("t1", "c1").Open(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		n.stop()
		files, err := os.ReadDir(dir)
		if err != nil || len(files) < 4 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"sk-in-clear-text", "the seed of the fleet", "the mac key", string(wire.GetKey())} {
				if strings.Contains(string(b), text) {
					t.Errorf("%s holds a secret in clear text", f.Name())
				}
			}
			if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %s, want it for the owner alone", f.Name(), info.Mode())
			}
		}
	})
}

func TestC24ClearTextIsGoneWhenTheCredentialIsDeleted(t *testing.T) {
	for name, deletion := range map[string]edit{
		"the credential":  credEdit("t1", &syncv1.SealedSecret{CredentialId: "c2", Version: 1, Sealed: []byte("x")}),
		"the whole shard": gone(credEdit("t1")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				k, wire := contentKey(t)
				p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}}
				p.commit(tenantEdit("t1"), subjectEdit("t1"), credEdit("t1",
					&syncv1.SealedSecret{CredentialId: "c1", Version: 1, Sealed: sealed(t, k, "t1", "c1", 1, "sk-1"), SealedProxy: sealed(t, k, "t1", "c1", 1, "pw")},
				))
				n := start(t, p, options{})
				n.at(t, p)
				pinned := n.holder.Load() // a request holds this View
				text, err1 := pinned.Secret("t1", "c1").Open()
				proxy, err2 := pinned.Secret("t1", "c1").OpenProxy()
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				p.commit(deletion)
				n.at(t, p)
				if !text.IsZero() || !proxy.IsZero() {
					t.Error("the clear text is still in memory")
				}
				if _, err := pinned.Secret("t1", "c1").Open(); !errors.Is(err, ErrSecretGone) {
					t.Errorf("open through an older View: %v, want ErrSecretGone", err)
				}
				if n.holder.Load().Secret("t1", "c1") != nil {
					t.Error("the credential is still served")
				}
			})
		})
	}
}

func TestOpenedSecretSurvivesAChangeOfItsNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		k, wire := contentKey(t)
		p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}}
		one := &syncv1.SealedSecret{CredentialId: "c1", Version: 1, Sealed: sealed(t, k, "t1", "c1", 1, "sk-1")}
		two := &syncv1.SealedSecret{CredentialId: "c2", Version: 1, Sealed: sealed(t, k, "t1", "c2", 1, "sk-2")}
		p.commit(tenantEdit("t1"), subjectEdit("t1"), credEdit("t1", one, two))
		n := start(t, p, options{})
		n.at(t, p)
		text, err := n.holder.Load().Secret("t1", "c1").Open()
		if err != nil {
			t.Fatal(err)
		}
		off := proto.CloneOf(one)
		off.Disabled = true
		p.commit(credEdit("t1", off))
		n.at(t, p)
		s := n.holder.Load().Secret("t1", "c1")
		if !s.Disabled || text.Reveal() != "sk-1" {
			t.Errorf("disabled %t, text %q; want disabled with its text", s.Disabled, text.Reveal())
		}
	})
}

func TestReferencesResolveOnlyInsideWhatTheNodeAllows(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(folder, "good"), "from file\n")
	write(filepath.Join(folder, "empty"), "\n")
	write(filepath.Join(folder, "large"), strings.Repeat("x", maxSecretFile+1))
	write(filepath.Join(outside, "other"), "not yours")
	for name, target := range map[string]string{
		"inside": "good", "escape": filepath.Join(outside, "other"),
	} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AIDY_SECRET_ONE", "from env")
	t.Setenv("AIDY_ROOT_KEY", "not yours")
	for _, tc := range []struct{ ref, want string }{
		{"env:AIDY_SECRET_ONE", "from env"},
		{"env:AIDY_SECRET_TWO", ""},
		{"env:AIDY_ROOT_KEY", ""},
		{"env:PATH", ""},
		{"file:good", "from file"},
		{"file:" + filepath.Join(folder, "good"), "from file"},
		{"file:inside", "from file"},
		{"file:escape", ""},
		{"file:../" + filepath.Base(outside) + "/other", ""},
		{"file:" + filepath.Join(outside, "other"), ""},
		{"file:/etc/passwd", ""},
		{"file:.", ""},
		{"file:", ""},
		{"file:missing", ""},
		{"file:empty", ""},
		{"file:large", ""},
		{"vault:x", ""},
		{"good", ""},
	} {
		o := &opener{keys: &keyStore{}, folder: folder}
		text, err := o.Open("t1", &syncv1.SealedSecret{CredentialId: "c1", SecretRef: tc.ref})
		if (err == nil) != (tc.want != "") || text.Reveal() != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.ref, text.Reveal(), err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "not yours") {
			t.Errorf("%s: the error shows a secret: %v", tc.ref, err)
		}
	}
	if _, err := (&opener{keys: &keyStore{}}).Open("t1", &syncv1.SealedSecret{SecretRef: "file:good"}); err == nil {
		t.Error("a file reference resolves without a folder")
	}
}

func TestDamagedKeysOnDiskAreAnErrorAndNoKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ks := &keyStore{dir: dir}
	_, wire := contentKey(t)
	if err := ks.accept(context.Background(), &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, contentKeysFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		damaged := append([]byte(nil), b...)
		damaged[i] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		again := &keyStore{dir: dir}
		if err := again.open(context.Background()); err == nil || len(again.load().content) != 0 {
			t.Fatalf("byte %d: damaged keys were taken", i)
		}
	}
}

package seal

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func TestKeyFileIsPrivateAndComesBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "root.key")
	made, err := CreateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %#o, want 0600", info.Mode().Perm())
	}
	loaded, err := LoadKeyFile(path)
	if err != nil || loaded.Current() != made.Current() {
		t.Errorf("loaded %v, %v; want key %q", loaded, err, made.Current())
	}
	if _, err := CreateKeyFile(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created over a key file: %v, want fs.ErrExist", err)
	}
	if again, err := LoadKeyFile(path); err != nil || again.Current() != made.Current() {
		t.Errorf("the key file was changed: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files left in the folder, %v; want the key file alone", len(left), err)
	}
}

func TestProcessesThatCreateAtOnceShareOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "root.key")
	var wg sync.WaitGroup
	ids := make([]string, 16)
	for i := range ids {
		wg.Go(func() {
			ring, err := LoadOrCreateKeyFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = ring.Current()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("keys %q and %q", id, ids[0])
		}
	}
}

func TestRotationKeepsOldKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "root.key")
	first, err := CreateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := Wrap(t.Context(), first, secret.New("x"), Context{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := RotateKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if second.Current() == first.Current() {
		t.Error("rotation left the key as it was")
	}
	loaded, err := LoadKeyFile(path)
	if err != nil || loaded.Current() != second.Current() {
		t.Fatalf("loaded %v, want the rotated keyring", err)
	}
	if got, err := Unwrap(t.Context(), loaded, blob, Context{ID: "a"}); err != nil || got.Reveal() != "x" {
		t.Errorf("what the old key wrapped opens as %q, %v", got.Reveal(), err)
	}
}

func TestKeyFileOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "root.key")
	if _, err := CreateKeyFile(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v, want the way to mend it", err)
	}
}

func TestBadKeysAreNamedByPlaceNotByValue(t *testing.T) {
	t.Parallel()
	good := base64.StdEncoding.EncodeToString(make([]byte, KeySize))
	for _, tc := range []struct{ name, value, want string }{
		{"empty", "", "key 1 of 1"},
		{"not base64", "hunter2!hunter2", "key 1 of 1"},
		{"short", "aHVudGVyMg==", "key 1 of 1"},
		{"second is bad", good + ",hunter2", "key 2 of 2"},
		{"twice", good + "," + good, "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseRootKeys(secret.New(tc.value))
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "unter2") {
				t.Errorf("got %v, want an error with %q and no key", err, tc.want)
			}
		})
	}
}

func TestEnvironmentAndFileAgreeOnTheKeyID(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", KeySize)))
	path := filepath.Join(t.TempDir(), "root.key")
	if err := os.WriteFile(path, []byte("# note\n\n"+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err1 := LoadKeyFile(path)
	env, err2 := ParseRootKeys(secret.New(key))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if file.Current() != env.Current() {
		t.Errorf("file %q, environment %q", file.Current(), env.Current())
	}
}

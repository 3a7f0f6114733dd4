package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

const (
	// SecretEnvPrefix begins the names of environment variables that a secret may
	// refer to. Nothing else of the node's environment can be read through the
	// configuration.
	SecretEnvPrefix = "AIDY_SECRET_"

	// maxSecretFile bounds a secret in a file. Private keys of service accounts are
	// the largest and have about 3 KiB.
	maxSecretFile = 64 << 10
)

// opener opens what the control plane sealed and resolves references. The
// additional data is the tenant, the credential or upstream, and the version.
type opener struct {
	keys   *keyStore
	folder string // of file references; empty allows none
}

// Open implements Opener.
func (o *opener) Open(tenantID string, s *syncv1.SealedSecret) (secret.Text, error) {
	if ref := s.GetSecretRef(); ref != "" {
		return o.resolve(ref)
	}
	return o.unseal(tenantID, s, s.GetSealed())
}

// OpenProxy implements Opener.
func (o *opener) OpenProxy(tenantID string, s *syncv1.SealedSecret) (secret.Text, error) {
	return o.unseal(tenantID, s, s.GetSealedProxy())
}

func (o *opener) unseal(tenantID string, s *syncv1.SealedSecret, blob []byte) (secret.Text, error) {
	id := s.GetCredentialId()
	if id == "" {
		id = s.GetUpstreamId()
	}
	return seal.OpenWith(o.keys.load().content, blob, seal.Context{Tenant: tenantID, ID: id, Version: uint64(s.GetVersion())})
}

func (o *opener) resolve(ref string) (secret.Text, error) {
	kind, at, _ := strings.Cut(ref, ":")
	switch kind {
	case "env":
		return fromEnv(at)
	case "file":
		return o.fromFile(at)
	}
	return secret.Text{}, fmt.Errorf("secret reference of kind %q: expected env:NAME or file:PATH", kind)
}

func fromEnv(name string) (secret.Text, error) {
	if !strings.HasPrefix(name, SecretEnvPrefix) {
		return secret.Text{}, fmt.Errorf("environment variable %q: a secret may refer only to names that begin with %s", name, SecretEnvPrefix)
	}
	text := secret.New(os.Getenv(name))
	if text.IsZero() {
		return text, fmt.Errorf("environment variable %s is not set on this node", name)
	}
	return text, nil
}

// fromFile reads a file inside the folder. Symbolic links are followed as long as
// they stay inside, so that files that an orchestrator mounts can be replaced.
func (o *opener) fromFile(path string) (secret.Text, error) {
	if o.folder == "" {
		return secret.Text{}, errors.New("file references are switched off on this node; name a folder of secrets in its settings")
	}
	local := path
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(o.folder, path)
		if err != nil {
			return secret.Text{}, fmt.Errorf("secret file %s is not inside the node's folder of secrets", path)
		}
		local = rel
	}
	root, err := os.OpenRoot(o.folder)
	if err != nil {
		return secret.Text{}, fmt.Errorf("open the folder of secrets: %w", err)
	}
	defer root.Close() // only read
	// A pipe would block the open, so look before.
	info, err := root.Stat(local)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return secret.Text{}, fmt.Errorf("secret file %s does not exist on this node", path)
	case err != nil:
		return secret.Text{}, fmt.Errorf("secret file %s: not readable inside the node's folder of secrets: %w", path, err)
	case !info.Mode().IsRegular():
		return secret.Text{}, fmt.Errorf("secret file %s is no regular file", path)
	}
	f, err := root.Open(local)
	if err != nil {
		return secret.Text{}, fmt.Errorf("open secret file: %w", err)
	}
	defer f.Close() // only read
	b, err := readBounded(f, path, maxSecretFile)
	if err != nil {
		return secret.Text{}, fmt.Errorf("read secret file: %w", err)
	}
	// Editors and shells end files with a line break that is not part of a secret.
	n := len(b)
	for n > 0 && (b[n-1] == '\n' || b[n-1] == '\r') {
		n--
	}
	if n == 0 {
		return secret.Text{}, fmt.Errorf("secret file %s is empty", path)
	}
	return secret.FromBytes(b[:n:n]), nil
}

package service

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type config struct {
	Addr  string        `key:"listen_addr" default:"127.0.0.1:1" help:"Where it listens."`
	Drain time.Duration `key:"drain" default:"30s" help:"Time to end."`
	DB    struct {
		URL secret.Text `key:"url" required:"true" help:"Connection string."`
	} `key:"database"`
}

type outcome struct {
	code        int
	out, errout string
	cfg         config
	ran         bool
}

func start(t *testing.T, environ []string, run func(context.Context) error, args ...string) outcome {
	t.Helper()
	var (
		o           outcome
		out, errout bytes.Buffer
	)
	if run == nil {
		run = func(context.Context) error { return nil }
	}
	p := Program{
		Name: "aidy-test", Purpose: "Test.", Config: &o.cfg, Ignore: []string{"AIDY_OTHER_*"},
		Run: func(ctx context.Context, _ []byte) error { o.ran = true; return run(ctx) },
	}
	o.code = Main(p, Env{Stdout: &out, Stderr: &errout, Environ: environ, Signals: make(chan os.Signal, 2), Exit: func(int) {}}, args)
	o.out, o.errout = out.String(), errout.String()
	return o
}

const url = "AIDY_DATABASE_URL=postgres://u:very-secret@db/x"

func TestFlagsOverruleTheEnvironmentAndThatTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("listen_addr: file\ndrain: 1s\ndatabase: {url: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := start(t, []string{url, "AIDY_DRAIN=2s", "AIDY_OTHER_THING=1", "AIDY_CONFIG=" + file}, nil, "--listen-addr=flag")
	if o.code != ExitOK || !o.ran {
		t.Fatalf("exit code %d: %s", o.code, o.errout)
	}
	if o.cfg.Addr != "flag" || o.cfg.Drain != 2*time.Second || o.cfg.DB.URL.Reveal() != "postgres://u:very-secret@db/x" {
		t.Errorf("loaded %+v", o.cfg)
	}
	if o := start(t, []string{url}, nil, "--config", file, "--database.url", "z"); o.cfg.Addr != "file" || o.cfg.DB.URL.Reveal() != "z" {
		t.Errorf("loaded %+v: %s", o.cfg, o.errout)
	}
}

func TestWhatMakesNoSenseIsRefusedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args, environ []string
		want          string
	}{
		{[]string{"--listen-adr=x"}, []string{url}, "did you mean listen_addr?"},
		{[]string{"serve"}, []string{url}, "is no flag"},
		{[]string{"--drain"}, []string{url}, "needs a value"},
		{[]string{"--drain", "1s", "--drain=2s"}, []string{url}, "given twice"},
		{[]string{"--version=1"}, []string{url}, "takes no value"},
		{[]string{"--drain", "soon"}, []string{url}, "drain"},
		{nil, nil, "database.url"},
		{nil, []string{url, "AIDY_DRIAN=1s"}, "AIDY_DRAIN"},
		{[]string{"--config", "/does/not/exist"}, []string{url}, "/does/not/exist"},
	} {
		o := start(t, tc.environ, nil, tc.args...)
		if o.code != ExitUsage || o.ran || !strings.Contains(o.errout, tc.want) {
			t.Errorf("%v: exit code %d, ran %t, error %s; want %q", tc.args, o.code, o.ran, o.errout, tc.want)
		}
	}
}

func TestEffectiveSettingsArePrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	o := start(t, []string{url}, nil, "--print-config", "--drain=3s")
	if o.code != ExitOK || o.ran {
		t.Fatalf("exit code %d, ran %t: %s", o.code, o.ran, o.errout)
	}
	for _, want := range []string{"listen_addr: 127.0.0.1:1 # default", "drain: 3s # flag", "[redacted]"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("output lacks %q:\n%s", want, o.out)
		}
	}
	if strings.Contains(o.out, "very-secret") {
		t.Errorf("a secret is printed:\n%s", o.out)
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	t.Parallel()
	o := start(t, nil, nil, "--help")
	for _, want := range []string{"--listen-addr=VALUE", "AIDY_DATABASE_URL", "Default: required", "Examples:", "Where it listens."} {
		if !strings.Contains(o.out, want) {
			t.Errorf("help lacks %q:\n%s", want, o.out)
		}
	}
	if o := start(t, nil, nil, "--version"); !strings.HasPrefix(o.out, "aidy-test ") || o.code != ExitOK {
		t.Errorf("version printed %q", o.out)
	}
}

func TestAFailureIsExitCodeOne(t *testing.T) {
	t.Parallel()
	o := start(t, []string{url}, func(context.Context) error { return errors.New("listen: taken") })
	if o.code != ExitError || o.errout != "aidy-test: listen: taken\n" {
		t.Errorf("exit code %d, error %q", o.code, o.errout)
	}
}

func TestTheFirstSignalDrainsAndTheSecondEnds(t *testing.T) {
	t.Parallel()
	signals, exits := make(chan os.Signal, 2), make(chan int, 1)
	release := make(chan struct{})
	p := Program{Name: "x", Config: new(config), Run: func(ctx context.Context, _ []byte) error {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		signals <- syscall.SIGTERM
		<-release
		return nil
	}}
	done := make(chan int)
	go func() {
		var b bytes.Buffer
		done <- Main(p, Env{Stdout: &b, Stderr: &b, Environ: []string{url}, Signals: signals, Exit: func(c int) { exits <- c }}, nil)
	}()
	if code := <-exits; code != exitAtOnce {
		t.Errorf("the second signal ends with %d", code)
	}
	close(release)
	if code := <-done; code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

package settings

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

type config struct {
	Common common // no key: its settings belong to config

	Addr     string            `key:"inference_addr" default:"127.0.0.1:8080" help:"Address of the public listener."`
	Drain    time.Duration     `key:"drain" default:"30s" help:"Time streams get | to end."`
	MaxBody  Bytes             `key:"max_body" default:"16MiB"`
	Workers  int               `key:"workers" default:"4"`
	Limit    int64             `key:"limit"`
	Insecure bool              `key:"insecure"`
	Origins  []string          `key:"origins" default:"a, b"`
	Labels   map[string]string `key:"labels"`
	Bind     netip.Addr        `key:"bind" default:"127.0.0.1"`
	Ignored  func()            `key:"-"`

	Database struct {
		URL  secret.Text `key:"url" required:"true" help:"Connection string."`
		Pool struct {
			Size int `key:"size" default:"10"`
		} `key:"pool"`
	} `key:"database"`
	Token string `key:"token" secret:"true" env:"AIDY_API_TOKEN"`
}

type common struct {
	LogLevel string `key:"log_level" default:"info" enum:"debug,info,warn,error" help:"Least level that is logged."`
}

func (c *config) Validate() error {
	if c.Workers < 1 {
		return errors.New("workers: want 1 or more")
	}
	return nil
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachSourceOverrulesTheOneBefore(t *testing.T) {
	t.Parallel()
	file := writeFile(t, `
inference_addr: "0.0.0.0:1"
drain: 1m
workers: 5
max_body: 1MiB
origins:
  - x
  - y
labels: {zone: a}
database:
  url: postgres://file
  pool:
    size: 20
`)
	var c config
	l, err := Load(&c, Sources{
		File:      file,
		Environ:   []string{"AIDY_DRAIN=2m", "AIDY_WORKERS=6", "AIDY_DATABASE_POOL_SIZE=", "AIDY_API_TOKEN=tok", "HOME=/x", "AIDY_LOG_LEVEL=warn"},
		Overrides: map[string]string{"workers": "7", "insecure": "true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	type values struct {
		Addr, Level, URL, Token, Bind string
		Drain                         time.Duration
		Workers, Size                 int
		Body                          Bytes
		Origins                       []string
		Labels                        map[string]string
		Insecure                      bool
	}
	got := values{
		c.Addr, c.Common.LogLevel, c.Database.URL.Reveal(), c.Token, c.Bind.String(), c.Drain, c.Workers,
		c.Database.Pool.Size, c.MaxBody, c.Origins, c.Labels, c.Insecure,
	}
	want := values{
		"0.0.0.0:1", "warn", "postgres://file", "tok", "127.0.0.1", 2 * time.Minute, 7,
		20, 1 << 20,
		[]string{"x", "y"},
		map[string]string{"zone": "a"},
		true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for key, want := range map[string]string{
		"workers": "flag", "drain": "environment AIDY_DRAIN", "inference_addr": file + ":2", "bind": "default", "database.pool.size": file + ":13", "nothing": "",
	} {
		if got := l.Source(key); got != want {
			t.Errorf("%s comes from %q, want %q", key, got, want)
		}
	}
}

func TestDefaultsAlone(t *testing.T) {
	t.Parallel()
	c := config{Limit: 9}
	if _, err := Load(&c, Sources{Environ: []string{"AIDY_DATABASE_URL=x"}}); err != nil {
		t.Fatal(err)
	}
	if c.Limit != 9 || c.MaxBody != 16<<20 || c.Drain != 30*time.Second || !cmp.Equal(c.Origins, []string{"a", "b"}) {
		t.Errorf("got limit %d, body %v, drain %v, origins %v", c.Limit, c.MaxBody, c.Drain, c.Origins)
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	file := writeFile(t, `inference_adr: x
drain: soon
drain: 1m
database:
  pool:
    sise: 3
labels: 3
workers: 1.5
`)
	_, err := Load(new(config), Sources{
		File:      file,
		Environ:   []string{"AIDY_DRIAN=2m", "AIDY_MAX_BODY=16MB", "AIDY_API_TOKEN=[redacted]"},
		Overrides: map[string]string{"worker": "7", "log_level": "loud"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		file + ":1: inference_adr is no setting of this program; did you mean inference_addr?",
		file + `:2: drain: "soon": want a duration`,
		file + ":3: drain stands here again, first in line 2",
		file + ":6: database.pool.sise is no setting of this program; did you mean database.pool.size?",
		file + ":7: labels: want names and values",
		file + `:8: workers: "1.5": want a whole number`,
		"environment: AIDY_DRIAN is no setting of this program; did you mean AIDY_DRAIN?",
		`environment: AIDY_MAX_BODY: "16MB": want a size`,
		"environment: AIDY_API_TOKEN: the value is not acceptable (not shown, it is a secret)",
		"flag: worker is no setting of this program; did you mean workers?",
		`flag: log_level: "loud": want one of debug, info, warn, error`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestRequiredAndValidate(t *testing.T) {
	t.Parallel()
	_, err := Load(new(config), Sources{Overrides: map[string]string{"workers": "0"}})
	for _, want := range []string{"database.url is required: set it in the file or in AIDY_DATABASE_URL", "workers: want 1 or more"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestVariablesOfOtherProgramsCanBeIgnored(t *testing.T) {
	t.Parallel()
	src := Sources{Environ: []string{"AIDY_DATABASE_URL=x", "AIDY_SECRET_ONE=s", "AIDY_ROOT_KEY=k"}, Ignore: []string{"AIDY_SECRET_*", "AIDY_ROOT_KEY"}}
	if _, err := Load(new(config), src); err != nil {
		t.Error(err)
	}
	src.Ignore = src.Ignore[:1]
	if _, err := Load(new(config), src); err == nil || !strings.Contains(err.Error(), "AIDY_ROOT_KEY") || strings.Contains(err.Error(), "SECRET_ONE") {
		t.Errorf("got %v, want an error about AIDY_ROOT_KEY alone", err)
	}
}

func TestFileIsReadStrictly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"not a mapping", "- a", "the file: want keys and values"},
		{"two documents", "drain: 1s\n---\ndrain: 2s", "more than one document"},
		{"alias", "inference_addr: &a x\ntoken: *a", "anchors and aliases"},
		{"password as an alias", "token: *hunter2", "put it in quotes"},
		{"tag", "inference_addr: !!binary eA==", "tags are not read"},
		{"merge key", "<<: {drain: 1s}", "<< is no setting"},
		{"null", "inference_addr:", "has no value"},
		{"list for text", "inference_addr: [a]", "want text"},
		{"text for list", "origins: a", "want a list"},
		{"number for a group", "database: 3", "database: want keys and values"},
		{"points", "database.url: x", "nested"},
		{"yes is no bool", "insecure: yes", "want true or false"},
		{"bad yaml", "drain: [", "yaml"},
		{"nested list", "origins: [[a]]", "origins: want text"},
		{"map twice", "labels: {a: 1, a: 2}", "twice"},
		{"too large", "# " + strings.Repeat("x", maxFile), "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(new(config), Sources{File: writeFile(t, tc.text), Environ: []string{"AIDY_DATABASE_URL=x"}})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		if _, err := Load(new(config), Sources{File: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want os.ErrNotExist", err)
		}
	})
	for _, text := range []string{"", "# nothing\n", "---\n", "{}"} {
		if _, err := Load(new(config), Sources{File: writeFile(t, text), Environ: []string{"AIDY_DATABASE_URL=x"}}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPrintIsReadBackAndHidesSecrets(t *testing.T) {
	t.Parallel()
	const dsn, tok = "postgres://u:hunter2@h/d", "tok-hunter2"
	rapid.Check(t, func(rt *rapid.T) {
		var a config
		overrides := map[string]string{
			"inference_addr": rapid.StringMatching(`[ -~]{0,20}`).Draw(rt, "addr"),
			"workers":        "3", "labels": "zone=a,rack=#1", "origins": "x,y: z,# c", "database.url": dsn, "token": tok,
		}
		l, err := Load(&a, Sources{Overrides: overrides})
		if err != nil {
			rt.Fatal(err)
		}
		var out bytes.Buffer
		if err := l.Print(&out); err != nil {
			rt.Fatal(err)
		}
		if strings.Contains(out.String(), "hunter2") || strings.Count(out.String(), secret.Redacted) != 2 {
			rt.Fatalf("printed:\n%s", out.String())
		}
		// Without its two secrets the text is a settings file for the same values.
		text := strings.NewReplacer(`url: "[redacted]"`, "url: "+dsn, `token: "[redacted]"`, "token: "+tok).Replace(out.String())
		var b config
		path := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			rt.Fatal(err)
		}
		if _, err := Load(&b, Sources{File: path}); err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff([]any{a.Addr, a.Drain, a.MaxBody, a.Workers, a.Origins, a.Labels, a.Bind.String(), a.Database.URL.Reveal(), a.Token},
			[]any{b.Addr, b.Drain, b.MaxBody, b.Workers, b.Origins, b.Labels, b.Bind.String(), b.Database.URL.Reveal(), b.Token}); diff != "" {
			rt.Fatalf("-printed +read back:\n%s\n%s", diff, text)
		}
	})
}

func TestPrintNamesTheSource(t *testing.T) {
	t.Parallel()
	l, err := Load(new(config), Sources{Environ: []string{"AIDY_DATABASE_URL=x", "AIDY_DRAIN=5s"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := l.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"drain: 5s # environment AIDY_DRAIN\n", "workers: 4 # default\n", "max_body: 16MiB # default\n",
		"origins: [a, b] # default\n", "database:\n  url: \"[redacted]\" # environment AIDY_DATABASE_URL\n  pool:\n    size: 10 # default\n", "token: \"\" # default\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestDocsListEverySetting(t *testing.T) {
	t.Parallel()
	got, err := Docs(new(config), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `inference_addr` | `AIDY_INFERENCE_ADDR` | `127.0.0.1:8080` | Address of the public listener. |\n",
		"| `database.url` | `AIDY_DATABASE_URL` | required | Connection string. Secret. |\n",
		`Time streams get \| to end.`,
		"| `token` | `AIDY_API_TOKEN` | none | Secret. |",
		"Least level that is logged. One of: debug, info, warn, error.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestDefectsOfTheStructAreErrors(t *testing.T) {
	t.Parallel()
	for name, dst := range map[string]any{
		"no pointer": config{},
		"nil":        (*config)(nil),
		"float": &struct {
			A float64 `key:"a"`
		}{},
		"no key": &struct{ A string }{},
		"bad key": &struct {
			A string `key:"A-b"`
		}{},
		"twice": &struct {
			A string `key:"a"`
			B string `key:"a"`
		}{},
		"one variable": &struct {
			A string `key:"a_b"`
			B struct {
				C string `key:"b"`
			} `key:"a"`
		}{},
		"not exported": &struct {
			a string `key:"a"`
		}{},
		"embedded, not exported": &struct{ common }{},
		"bad default": &struct {
			A int `key:"a" default:"x"`
		}{},
	} {
		if _, err := Load(dst, Sources{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBytesText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Range(0, 1<<62).Draw(t, "n"))
		if got, err := ParseBytes(b.String()); err != nil || got != b {
			t.Fatalf("%d is written %q and read as %d, %v", int64(b), b, int64(got), err)
		}
	})
	for _, s := range []string{"", "MiB", "-1", "+1", "1.5MiB", "16MB", "9223372036854775807KiB", "1 2B", "1kib"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("%q is read as %d", s, int64(got))
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add("drain: 1m\nlabels: {a: b}\norigins: [a]\ndatabase: {url: x}\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schemaOf(new(config), "AIDY_")
		if err != nil {
			t.Fatal(err)
		}
		var p problems
		s.loadYAML("f", []byte(text), &p)
	})
}

package dataplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// The benchmarks measure a node in a process of its own, so that its CPU time and
// memory are its alone. This binary plays all parts: started with a role it is the
// node or the provider.
const roleVariable = "AIDY_BENCH_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func play(role string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var h http.Handler = http.HandlerFunc(provide)
	switch role {
	case "scripted":
		h = scriptedProvider()
	case "node":
		view, err := buildView(os.Getenv("AIDY_BENCH_UPSTREAM"), benchOptions()...)
		if err != nil {
			return err
		}
		log := zerolog.New(io.Discard).Level(zerolog.InfoLevel)
		n, err := staticNode(view, os.Getenv("AIDY_BENCH_DIR"), log)
		if err != nil {
			return err
		}
		go func() { _ = n.wal.Run(context.Background()) }()
		h = withHeap(n)
		TuneGC()
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	profile, err := startProfile(role)
	if err != nil {
		return err
	}
	go func() { // ends with the process that started it
		_, _ = io.Copy(io.Discard, os.Stdin)
		profile()
		os.Exit(0)
	}()
	fmt.Println(l.Addr())
	return s.Serve(l)
}

// startProfile writes profiles of the process, of its CPU time and of what it
// allocated, where AIDY_BENCH_PROFILE names a folder.
func startProfile(role string) (stop func(), err error) {
	dir := os.Getenv("AIDY_BENCH_PROFILE")
	if dir == "" {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(dir, role+".prof"))
	if err != nil {
		return nil, err
	}
	allocs, err := os.Create(filepath.Join(dir, role+".allocs"))
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
		_ = pprof.Lookup("allocs").WriteTo(allocs, 0)
		allocs.Close()
	}, pprof.StartCPUProfile(f)
}

var wholeAnswer = []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"fake-large","choices":[{"index":0,"message":{"role":"assistant","content":"` +
	strings.Repeat("All work and no play. ", 40) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150}}`)

// provide is the provider of the benchmarks: as fast as it can be. A prompt that asks
// for it gets a stream that is held open after its first events.
func provide(w http.ResponseWriter, r *http.Request) {
	head := make([]byte, 256)
	n, _ := io.ReadFull(r.Body, head)
	_, _ = io.Copy(io.Discard, r.Body)
	if !bytes.Contains(head[:n], []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(wholeAnswer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 10 {
		fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"fake-large\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"piece %d \"}}]}\n\n", i)
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// process is one process of a benchmark.
type process struct {
	url  string
	pids []int
	stop func()
}

func start(b *testing.B, role string, env ...string) *process {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatalf("start %s: %v", role, err)
	}
	p := &process{url: "http://" + strings.TrimSpace(line), pids: []int{cmd.Process.Pid}}
	p.stop = func() {
		in.Close()
		_ = cmd.Wait()
	}
	b.Cleanup(p.stop)
	return p
}

func startNode(b *testing.B, upstream string) *process {
	b.Helper()
	return start(b, "node", "AIDY_BENCH_UPSTREAM="+upstream, "AIDY_BENCH_DIR="+b.TempDir())
}

// What nginx does towards its upstream. nginxDefault is what a bare proxy_pass does: HTTP/1.0
// and a connection for each request. nginxKept is HTTP/1.1 over kept connections, as the node does.
const (
	nginxDefault = ""
	nginxKept    = `proxy_http_version 1.1; proxy_set_header Connection "";`
)

// startNginx starts one worker of nginx before the provider; nil without nginx.
func startNginx(b *testing.B, upstream, how string) *process {
	b.Helper()
	exe, err := exec.LookPath("nginx")
	if err != nil {
		return nil
	}
	dir := b.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	to := strings.TrimPrefix(upstream, "http://")
	if how == nginxKept {
		to = "kept"
	}
	conf := fmt.Sprintf(`daemon off; master_process off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
  access_log off; client_max_body_size 64m; client_body_buffer_size 2m; keepalive_requests 1000000;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream kept { server %[2]s; keepalive 256; keepalive_requests 1000000; }
  server { listen %[3]s; location / { proxy_pass http://%[4]s; %[5]s } }
}`, dir, strings.TrimPrefix(upstream, "http://"), addr, to, how)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, "-p", dir, "-c", file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return &process{url: "http://" + addr, pids: []int{cmd.Process.Pid}}
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("nginx does not answer")
	return nil
}

// cpu is the CPU time that a process used so far, user and system.
func (p *process) cpu(b *testing.B) time.Duration {
	b.Helper()
	ticks := int64(0)
	for _, pid := range p.pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Skip("CPU time of another process is read from /proc, which this system lacks")
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+2:]))
		for _, f := range fields[11:13] {
			n, _ := strconv.ParseInt(f, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// memory is a size of the process in KiB: VmRSS or VmHWM, the peak.
func (p *process) memory(b *testing.B, what string) int64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pids[0]))
	if err != nil {
		b.Skip("memory of another process is read from /proc, which this system lacks")
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	b.Fatalf("no %s in status", what)
	return 0
}

func chatBody(size int, stream bool) []byte {
	return []byte(fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":%q}]}`, stream, strings.Repeat("x", size)))
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Content-Type", "application/json")
	return client.Do(req)
}

// load sends requests over c connections for d and returns how many were answered.
func load(b *testing.B, url string, body []byte, c int, d time.Duration) int64 {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c, WriteBufferSize: 64 << 10}}
	defer client.CloseIdleConnections()
	var served atomic.Int64
	var failed atomic.Pointer[error]
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for range c {
		wg.Go(func() {
			for time.Now().Before(end) {
				resp, err := post(b.Context(), client, url, body)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if err == nil && resp.StatusCode != http.StatusOK {
						err = errors.New(resp.Status)
					}
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				served.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	return served.Load()
}

// BenchmarkCPUPerRequest compares the CPU time of a request through a node, with
// authentication, scheduling, metering and headers on, with nginx's proxy_pass in
// the same run, once as it is by default and once with kept connections to the
// upstream. The three take turns in short rounds and the best round of each counts,
// so that what else the machine does hits all.
func BenchmarkCPUPerRequest(b *testing.B) {
	for _, size := range []int{1 << 10, 200 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			mock := start(b, "provider")
			node := startNode(b, mock.url)
			proxies := []struct {
				name string
				p    *process
				best time.Duration
			}{
				{"default", startNginx(b, mock.url, nginxDefault), 0},
				{"keepalive", startNginx(b, mock.url, nginxKept), 0},
			}
			const rounds, each = 8, time.Second / 2
			body := chatBody(size, false)
			perRequest := func(p *process) time.Duration {
				before := p.cpu(b)
				n := load(b, p.url, body, 16, each)
				return (p.cpu(b) - before) / time.Duration(n)
			}
			for b.Loop() {
				ours := time.Duration(1 << 62)
				for i := range proxies {
					proxies[i].best = 1 << 62
				}
				for range rounds {
					ours = min(ours, perRequest(node))
					for i := range proxies {
						if x := &proxies[i]; x.p != nil {
							x.best = min(x.best, perRequest(x.p))
						}
					}
				}
				b.ReportMetric(float64(ours.Nanoseconds())/1e3, "node-cpu-us/req")
				for _, x := range proxies {
					if x.p != nil {
						b.ReportMetric(float64(x.best.Nanoseconds())/1e3, "nginx-"+x.name+"-cpu-us/req")
						b.ReportMetric(float64(ours)/float64(x.best), "x-nginx-"+x.name)
					}
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkHeldStreams measures the memory of a stream that is open: 500 of them.
func BenchmarkHeldStreams(b *testing.B) {
	const streams = 500
	for b.Loop() {
		mock := start(b, "provider")
		node := startNode(b, mock.url)
		load(b, node.url, chatBody(1<<10, false), 16, time.Second/2)
		idle := node.memory(b, "VmRSS")
		ctx, cancel := context.WithCancel(b.Context())
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
		bodies := make([]io.Closer, 0, streams)
		for range streams {
			resp, err := post(ctx, client, node.url, []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hold"}]}`))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 512)); err != nil {
				b.Fatal(err)
			}
			bodies = append(bodies, resp.Body)
		}
		held := node.memory(b, "VmRSS")
		b.ReportMetric(float64(held-idle)/streams, "KiB/stream")
		b.ReportMetric(float64(idle)/1024, "idle-MiB")
		cancel()
		for _, c := range bodies {
			c.Close()
		}
		client.CloseIdleConnections()
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPeakMemory sends 1,500 calls of 150 KB at once.
func BenchmarkPeakMemory(b *testing.B) {
	for b.Loop() {
		mock := start(b, "provider")
		node := startNode(b, mock.url)
		load(b, node.url, chatBody(150<<10, false), 1500, 3*time.Second)
		b.ReportMetric(float64(node.memory(b, "VmHWM"))/1024, "peak-MiB")
	}
	b.ReportMetric(0, "ns/op")
}

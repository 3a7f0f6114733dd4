package dataplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// speaksVariable names the only protocol of the provider behind a node of the
// benchmarks; without it there are all.
const speaksVariable = "AIDY_BENCH_SPEAKS"

// firstPiece is the first content of the streams of scriptedProvider.
const firstPiece = "firstpiece"

// scriptedProvider streams an answer of 8 KB in 512 pieces. A prompt of a held answer
// is never answered to the end.
func scriptedProvider() http.Handler {
	p := fakeprovider.New(fakeprovider.Config{Record: 1, RecordBytes: 1})
	s := fakeprovider.Step{Pieces: slices.Repeat([]string{"sixteen letters "}, 512)}
	s.Pieces[0] = firstPiece
	if os.Getenv("AIDY_BENCH_HOLD") != "" {
		s.Fault, s.FaultAfter = fakeprovider.FaultStall, len(s.Pieces)
	} else {
		s.Pieces = s.Pieces[:8]
	}
	p.Script(fakeprovider.Match{}, s)
	return p
}

// benchOptions are what the environment says of the node's configuration.
func benchOptions() []rigOption {
	if p := os.Getenv(speaksVariable); p != "" {
		return []rigOption{speaking(fakeprovider.Protocol(p))}
	}
	return nil
}

// heapPath is where a node of the benchmarks tells how much of its memory is in use.
const heapPath = "/bench/heap"

// withHeap adds heapPath: the bytes of heap and stacks that live after a collection.
func withHeap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != heapPath {
			next.ServeHTTP(w, r)
			return
		}
		runtime.GC()
		runtime.GC() // what pools held is dead after the second one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprint(w, m.HeapAlloc, " ", m.StackInuse)
	})
}

// live is the heap and the stacks of a node that are in use, in bytes.
func live(b *testing.B, node *process) (heap, stacks int64) {
	b.Helper()
	resp, err := http.Get(node.url + heapPath)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := fmt.Fscan(resp.Body, &heap, &stacks); err != nil {
		b.Fatal(err)
	}
	return heap, stacks
}

// asker sends streamed requests of one protocol over kept connections.
type asker struct {
	client *http.Client
	url    string
	body   []byte
}

func newAsker(base, model string, p fakeprovider.Protocol, text string) asker {
	w := wireOf(p)
	body := strings.Replace(w.body(model, true), "hello there", text, 1)
	return asker{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, WriteBufferSize: 64 << 10}},
		url:    base + strings.ReplaceAll(w.streamPath, "MODEL", model),
		body:   []byte(body),
	}
}

// open sends the request and reads until it has what is wanted.
func (a asker) open(ctx context.Context, want []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Api-Key", testKey)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		told, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", resp.Status, told)
	}
	buf := make([]byte, 4<<10)
	have := 0 // of buf, the end of what was read before
	for {
		n, err := resp.Body.Read(buf[have:])
		have += n
		if bytes.Contains(buf[:have], want) {
			return resp.Body, nil
		}
		if err != nil {
			resp.Body.Close()
			return nil, fmt.Errorf("no %s came: %w", want, err)
		}
		if keep := 256; have > keep {
			have = copy(buf, buf[have-keep:have])
		}
	}
}

// firstToken is the time from the request to the first content.
func (a asker) firstToken(b *testing.B) time.Duration {
	b.Helper()
	begun := time.Now()
	body, err := a.open(b.Context(), []byte(firstPiece))
	took := time.Since(begun)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, body)
	body.Close()
	return took
}

// BenchmarkFirstTokenConverted measures what a node adds to the time to the first token,
// to streams that it converts and to those of the provider's own protocol. Calls of
// both kinds and calls without the node take turns; the median counts.
func BenchmarkFirstTokenConverted(b *testing.B) {
	mock := start(b, "scripted")
	for _, size := range []int{1 << 10, 200 << 10} {
		text := strings.Repeat(`The quick brown fox jumps over the lazy dog, \"he said\"\n`, size/57)
		for _, to := range allProtocols() {
			node := start(b, "node", "AIDY_BENCH_UPSTREAM="+mock.url, "AIDY_BENCH_DIR="+b.TempDir(), speaksVariable+"="+string(to))
			for _, from := range allProtocols() {
				if from == to {
					continue
				}
				b.Run(fmt.Sprintf("%dKiB/%s-%s", size>>10, from, to), func(b *testing.B) {
					askers := []asker{
						newAsker(mock.url, "fake-large", to, text),
						newAsker(node.url, "m", to, text),
						newAsker(node.url, "m", from, text),
					}
					const rounds = 300
					for b.Loop() {
						var took [3][]time.Duration
						for round := range rounds + 20 {
							for i, a := range askers {
								if d := a.firstToken(b); round >= 20 { // after the connections are made
									took[i] = append(took[i], d)
								}
							}
						}
						var p50 [3]float64
						for i := range took {
							slices.Sort(took[i])
							p50[i] = float64(took[i][rounds/2].Nanoseconds()) / 1e3
						}
						b.ReportMetric(p50[0], "direct-us")
						b.ReportMetric(p50[1]-p50[0], "own-added-us")
						b.ReportMetric(p50[2]-p50[0], "converted-added-us")
						b.ReportMetric((p50[2]-p50[0])/(p50[1]-p50[0]), "x-own")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
			node.stop()
		}
	}
}

// BenchmarkHeldConvertedStreams measures the memory of a converted stream that is open
// after 8 KB of text, with 400 of them: what lives after a collection, and by how much
// the process grew. The node is new, so that what it may let lie before it collects is
// part of the growth.
func BenchmarkHeldConvertedStreams(b *testing.B) {
	const streams = 400
	for _, to := range allProtocols() {
		for _, from := range allProtocols() {
			b.Run(fmt.Sprintf("%s-%s", from, to), func(b *testing.B) {
				for b.Loop() {
					hold := start(b, "scripted", "AIDY_BENCH_HOLD=1")
					node := start(b, "node", "AIDY_BENCH_UPSTREAM="+hold.url, "AIDY_BENCH_DIR="+b.TempDir(), speaksVariable+"="+string(to))
					ctx, cancel := context.WithCancel(b.Context())
					a := newAsker(node.url, "m", from, "hello")
					var bodies []io.Closer
					open := func(n int) {
						for range n {
							body, err := a.open(ctx, []byte(firstPiece))
							if err != nil {
								b.Fatal(err)
							}
							bodies = append(bodies, body)
						}
					}
					open(20)
					idle := node.memory(b, "VmRSS")
					heapIdle, stacksIdle := live(b, node)
					open(streams)
					// What the provider sent before it fell silent has passed through by then.
					time.Sleep(time.Second)
					held := node.memory(b, "VmRSS")
					heap, stacks := live(b, node)
					b.ReportMetric(float64(heap-heapIdle)/streams/1024, "heap-KiB/stream")
					b.ReportMetric(float64(stacks-stacksIdle)/streams/1024, "stacks-KiB/stream")
					b.ReportMetric(float64(held-idle)/streams, "rss-KiB/stream")
					cancel()
					for _, c := range bodies {
						c.Close()
					}
					a.client.CloseIdleConnections()
					node.stop()
					hold.stop()
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

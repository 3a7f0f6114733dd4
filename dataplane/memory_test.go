package dataplane

import (
	"io/fs"
	"testing"
)

func TestContainerLimitIsRead(t *testing.T) {
	t.Parallel()
	const v2, v1 = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no container", nil, 0},
		{"version 2", map[string]string{v2: "536870912\n"}, 512 << 20},
		{"version 2 without a limit", map[string]string{v2: "max\n"}, 0},
		{"version 1", map[string]string{v1: "1073741824\n"}, 1 << 30},
		{"version 1 without a limit", map[string]string{v1: "9223372036854771712\n"}, 0},
		{"nonsense", map[string]string{v2: "a lot", v1: "-5"}, 0},
	} {
		got := containerLimit(func(name string) ([]byte, error) {
			if s, ok := tc.files[name]; ok {
				return []byte(s), nil
			}
			return nil, fs.ErrNotExist
		})
		if got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestGarbageIsBounded(t *testing.T) {
	t.Parallel()
	for live := uint64(1 << 16); live < 1<<36; live += live / 7 {
		percent := gcPercent(live)
		if percent < gcMinPercent || percent > gcMaxPercent {
			t.Fatalf("%d%% for %d live bytes", percent, live)
		}
		if garbage := live * uint64(percent) / 100; garbage > gcSlack && percent > gcMinPercent {
			t.Fatalf("%d bytes of garbage for %d live bytes, more than %d", garbage, live, gcSlack)
		}
	}
}

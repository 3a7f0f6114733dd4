package memlimit

import (
	"testing"
	"testing/fstest"
)

func files(in map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range in {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestTheLeastLimitOnTheWayUpCounts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		in   map[string]string
		want int64
		ok   bool
	}{
		{"nothing", nil, 0, false},
		{"version 2", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30, true},
		{"version 2 without a limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0, false},
		{"a parent is narrower", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "900\n", "sys/fs/cgroup/a/memory.max": "800\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 800, true},
		{"the path of the host", map[string]string{"proc/self/cgroup": "0::/kubepods/x\n", "sys/fs/cgroup/memory.max": "700\n"}, 700, true},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:cpu,memory:/docker/x\n4:cpuset:/\n", "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "600\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 600, true},
		{"nonsense", map[string]string{"proc/self/cgroup": "x\n0::/\n", "sys/fs/cgroup/memory.max": "-5\n"}, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := Container(files(tc.in))
			if ok != tc.ok || ok && got != tc.want {
				t.Errorf("limit %d %t, want %d %t", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestTheEnvironmentWins(t *testing.T) {
	t.Parallel()
	if got := Set(func(string) string { return "1GiB" }); got != 0 {
		t.Errorf("set %d although GOMEMLIMIT is set", got)
	}
}

package endpoint

import (
	"bytes"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func TestLengthOfSoundIsReadFromItsHead(t *testing.T) {
	t.Parallel()
	mp3 := func(head ...byte) []byte { return append(head, make([]byte, 200)...) }
	tagged := append([]byte("ID3\x04\x00\x00\x00\x00\x00\x05"), append(make([]byte, 5), mp3(0xff, 0xfb, 0x90)...)...)
	for name, tc := range map[string]struct {
		format string
		head   []byte
		size   int64
		want   int64
	}{
		"wav":                {"", fakeprovider.Wav(7), int64(len(fakeprovider.Wav(7))), 7},
		"mp3 of 128 kbit":    {"mp3", mp3(0xff, 0xfb, 0x90), 160000, 10},
		"mp3 of 64 kbit":     {"", mp3(0xff, 0xf3, 0x80), 80000, 10},
		"mp3 behind a tag":   {"", tagged, 160000, 10},
		"mp3 of no rate":     {"", mp3(0xff, 0xfb, 0xf0), 16 << 10, 1},
		"pcm":                {"pcm", make([]byte, 100), 480000, 10},
		"a tag that is cut":  {"", []byte("ID3\x04\x00\x00\x7f\x7f\x7f\x7f\x00"), 100, 1},
		"something else":     {"", []byte("????"), 160 << 10, 10},
		"nothing":            {"", nil, 0, 1},
		"a wav without rate": {"", append([]byte("RIFF"), make([]byte, 40)...), 16 << 10, 1},
	} {
		if got := soundLength(tc.format, bytes.Clone(tc.head), tc.size); got != tc.want {
			t.Errorf("%s: %d seconds, want %d", name, got, tc.want)
		}
	}
}

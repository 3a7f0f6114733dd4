package endpoint

import (
	"bytes"
	"encoding/binary"
)

// soundHead is how much of the beginning of a sound tells its rate, in bytes.
const soundHead = 4 << 10

// wavHead is what stands before the sound in a WAV file, in bytes.
const wavHead = 44

// Bytes in a second of the formats whose head is not read, as the vendors make them.
const (
	pcmRate  = 2 * 24000 // OpenAI's: 24 kHz, 16 bit, one channel
	opusRate = 4 << 10
	aacRate  = 8 << 10
	flacRate = 40 << 10
	anyRate  = 16 << 10 // 128 kbit/s
)

// soundLength estimates how many seconds a sound of size bytes lasts, rounded up and at
// least one. head is its beginning; format is its name where that is known. WAV and MP3
// say their rate themselves.
func soundLength(format string, head []byte, size int64) int64 {
	rate := int64(anyRate)
	switch {
	case len(head) >= 32 && bytes.HasPrefix(head, []byte("RIFF")):
		if r := binary.LittleEndian.Uint32(head[28:]); r > 0 {
			rate, size = int64(r), size-wavHead
		}
	case format == "pcm":
		rate = pcmRate
	case format == "opus" || bytes.HasPrefix(head, []byte("OggS")):
		rate = opusRate
	case format == "aac":
		rate = aacRate
	case format == "flac" || bytes.HasPrefix(head, []byte("fLaC")):
		rate = flacRate
	default:
		if r := mp3Rate(head); r > 0 {
			rate = r
		}
	}
	return max((size+rate-1)/rate, 1)
}

// mp3Rate is the rate of the first frame of an MPEG layer III stream, in bytes a
// second; 0 if there is none in head.
func mp3Rate(head []byte) int64 {
	kbit := [2][15]int64{
		{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}, // MPEG 1
		{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},     // MPEG 2 and 2.5
	}
	if bytes.HasPrefix(head, []byte("ID3")) && len(head) > 10 {
		tag := int(head[6]&127)<<21 | int(head[7]&127)<<14 | int(head[8]&127)<<7 | int(head[9]&127)
		head = head[min(10+tag, len(head)):]
	}
	if len(head) < 3 || head[0] != 0xff || head[1]&0xe6 != 0xe2 {
		return 0
	}
	version := 1
	if head[1]>>3&3 == 3 {
		version = 0
	}
	if i := head[2] >> 4; i < 15 {
		return kbit[version][i] * 1000 / 8
	}
	return 0
}

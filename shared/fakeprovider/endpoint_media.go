package fakeprovider

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// tinyPNG is a picture of one pixel whose colour is the request's own.
func (c *call) tinyPNG(n int) []byte {
	h := c.ids.hash("picture", n)
	m := image.NewRGBA(image.Rect(0, 0, 1, 1))
	m.Set(0, 0, color.RGBA{h[0], h[1], h[2], 255})
	var b bytes.Buffer
	_ = png.Encode(&b, m) // a buffer takes everything
	return b.Bytes()
}

// byPiece reports models that are sold by the picture and tell no tokens.
func byPiece(model string) bool { return strings.HasPrefix(model, "dall-e") }

// picture answers the three requests for pictures.
func (c *call) picture() {
	if c.operation == ImageEdit && len(c.form.files) == 0 && len(c.form.raw("images")) == 0 {
		c.writeFailure(*refuseAt("image", "Missing required parameter: 'image'."))
		return
	}
	n := c.form.number("n", 1)
	if n < 1 || n > 10 {
		c.writeFailure(*refuseAt("n", "'n' has to be between 1 and 10"))
		return
	}
	usage := obj("input_tokens", 50, "input_tokens_details", obj("text_tokens", 10, "image_tokens", 40),
		"output_tokens", 100*n, "total_tokens", 50+100*n)
	if c.ask.stream {
		kind := "image_generation"
		if c.operation == ImageEdit {
			kind = "image_edit"
		}
		a := new(endpointAnswer)
		for i := range n {
			shown := base64.StdEncoding.EncodeToString(c.tinyPNG(i))
			about := func() object {
				return obj("b64_json", shown, "created_at", c.p.cfg.Now().Unix(), "size", "1024x1024", "quality", "low", "background", "opaque", "output_format", "png")
			}
			for p := range c.form.number("partial_images", 0) {
				a.event(true, false, kind+".partial_image", about().with("partial_image_index", p))
			}
			each := obj("input_tokens", 50, "input_tokens_details", obj("text_tokens", 10, "image_tokens", 40), "output_tokens", 100, "total_tokens", 150)
			a.event(true, i == n-1, kind+".completed", about().with("usage", each))
		}
		c.playEvents(a)
		return
	}
	data := list{}
	for i := range n {
		if c.form.text("response_format") == "url" {
			data = append(data, obj("url", fmt.Sprintf("https://pictures.example/%d.png", i)))
			continue
		}
		data = append(data, obj("b64_json", base64.StdEncoding.EncodeToString(c.tinyPNG(i))))
	}
	answer := obj("created", c.p.cfg.Now().Unix(), "data", data)
	if !byPiece(c.ask.model) && !c.step.OmitUsage {
		answer = append(answer, obj("size", "1024x1024", "quality", "low", "background", "opaque", "output_format", "png", "usage", usage)...)
	}
	c.answerJSON(answer)
}

// predict is how Gemini's API makes pictures.
func (c *call) predict() {
	var parameters struct {
		SampleCount int `json:"sampleCount"`
	}
	_ = decode(c.form.raw("parameters"), &parameters) // absent, or checked by nobody
	predictions := list{}
	for i := range max(parameters.SampleCount, 1) {
		predictions = append(predictions, obj("mimeType", "image/png", "bytesBase64Encoded", base64.StdEncoding.EncodeToString(c.tinyPNG(i))))
	}
	c.answerJSON(obj("predictions", predictions))
}

// sampleRate is that of all sound made here, of 16 bit and one channel.
const sampleRate = 24000

// silence is sound of a length, as PCM.
func silence(seconds int) []byte { return make([]byte, 2*sampleRate*seconds) }

// wav puts the head of a WAV file before PCM.
func wav(pcm []byte) []byte {
	b := []byte("RIFF")
	b = binary.LittleEndian.AppendUint32(b, uint32(36+len(pcm)))
	b = append(b, "WAVEfmt "...)
	for _, v := range []uint32{16, 1 | 1<<16, sampleRate, 2 * sampleRate, 2 | 16<<16} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(pcm)))
	return append(b, pcm...)
}

// Wav is a file of silence, for tests that need something to hear.
func Wav(seconds int) []byte { return wav(silence(seconds)) }

// speak makes a second of sound for every 16 bytes of text.
func (c *call) speak() {
	text := c.form.text("input")
	pcm := silence((len(text) + 15) / 16)
	body, kind := pcm, "audio/pcm"
	switch format := c.form.text("response_format"); format {
	case "pcm":
	case "wav":
		body, kind = wav(pcm), "audio/wav"
	case "", "mp3":
		body, kind = append([]byte{0xff, 0xfb, 0x90, 0}, pcm[:len(pcm)/12]...), "audio/mpeg"
	case "opus", "aac", "flac":
		body, kind = append([]byte(format), pcm[:len(pcm)/12]...), "audio/"+format
	default:
		c.writeFailure(*refuseAt("response_format", "'%s' is not a format", format))
		return
	}
	if c.ask.stream {
		a := new(endpointAnswer)
		for chunk := body; len(chunk) > 0; {
			n := min(len(chunk), 12000)
			a.event(true, false, "speech.audio.delta", obj("audio", base64.StdEncoding.EncodeToString(chunk[:n])))
			chunk = chunk[n:]
		}
		in, out := tokens(len(text)), int64(len(pcm)/(2*sampleRate)*10)
		a.event(false, true, "speech.audio.done", obj("usage", obj("input_tokens", in, "output_tokens", out, "total_tokens", in+out)))
		c.playEvents(a)
		return
	}
	c.playBinary(kind, body)
}

// playBinary sends bytes that are no JSON.
func (c *call) playBinary(kind string, body []byte) {
	c.step.Raw, c.step.RawType = body, kind
	if len(body) > 64<<10 {
		c.step.RawSplits = []int{16 << 10, 48 << 10}
	}
	c.ask.stream = false
	c.playRaw(&endpointAnswer{})
}

// heard is how long a file sounds: WAV says it, everything else counts as one second.
func heard(file []byte) int {
	if len(file) < 44 || string(file[:4]) != "RIFF" {
		return 1
	}
	rate := binary.LittleEndian.Uint32(file[28:])
	return max(int(binary.LittleEndian.Uint32(file[40:])/max(rate, 1)), 1)
}

// transcribe answers with a text that names the file and its length.
func (c *call) transcribe() {
	file := c.form.files["file"]
	seconds := heard(file.body)
	text := fmt.Sprintf("This is %s of %d seconds.", file.name, seconds)
	byLength := strings.HasPrefix(c.ask.model, "whisper")
	usage := obj("type", "tokens", "input_tokens", 10*seconds+4, "input_token_details", obj("text_tokens", 4, "audio_tokens", 10*seconds),
		"output_tokens", 12, "total_tokens", 10*seconds+16)
	if byLength {
		usage = obj("type", "duration", "seconds", seconds)
	}
	if c.ask.stream {
		a := new(endpointAnswer)
		for _, w := range words(text) {
			a.event(true, false, "transcript.text.delta", obj("delta", w))
		}
		a.event(false, true, "transcript.text.done", obj("text", text, "usage", usage))
		c.playEvents(a)
		return
	}
	switch format := c.form.text("response_format"); format {
	case "", "json":
		answer := obj("text", text)
		if !c.step.OmitUsage {
			answer = answer.with("usage", usage)
		}
		c.answerJSON(answer)
	case "verbose_json":
		c.answerJSON(obj("task", string(c.operation), "language", "english", "duration", jsontext.Value(fmt.Sprintf("%d.0", seconds)), "text", text,
			"segments", list{obj("id", 0, "seek", 0, "start", 0, "end", seconds, "text", text, "tokens", list{1, 2}, "temperature", 0,
				"avg_logprob", -0.1, "compression_ratio", 1.1, "no_speech_prob", 0.01)}))
	case "text":
		c.playBinary("text/plain; charset=utf-8", []byte(text+"\n"))
	case "srt":
		c.playBinary("text/plain; charset=utf-8", fmt.Appendf(nil, "1\n00:00:00,000 --> 00:00:%02d,000\n%s\n", seconds, text))
	case "vtt":
		c.playBinary("text/plain; charset=utf-8", fmt.Appendf(nil, "WEBVTT\n\n00:00.000 --> 00:%02d.000\n%s\n", seconds, text))
	default:
		c.writeFailure(*refuseAt("response_format", "'%s' is not a format", format))
	}
}

// video answers what has to do with OpenAI's videos. One is queued when it is made,
// under way when it is first asked for, and done from then on.
func (c *call) video() {
	id := strings.Split(strings.TrimPrefix(c.r.URL.Path[strings.Index(c.r.URL.Path, "/videos"):], "/videos"), "/")
	name := ""
	if len(id) > 1 {
		name = id[1]
	}
	missing := Failure{Kind: NotFound, Message: fmt.Sprintf("Video with id '%s' not found.", name)}
	switch c.operation {
	case NewVideo, RemixVideo:
		k := kept{key: c.key, model: c.ask.model, prompt: c.form.text("prompt"), seconds: c.form.text("seconds"), size: c.form.text("size")}
		if c.operation == RemixVideo {
			from, ok := c.p.objects.look(name, c.key, false)
			if !ok {
				c.writeFailure(missing)
				return
			}
			k.from, k.model, k.seconds, k.size = name, from.model, from.seconds, from.size
		}
		if k.seconds == "" {
			k.seconds = "4"
		}
		if k.size == "" {
			k.size = "720x1280"
		}
		made := c.ids.hex("video_", len(c.p.objects.of(c.key)))
		c.p.objects.add(made, &k)
		c.answerJSON(c.videoObject(made, k))
	case ListVideos:
		data := list{}
		ids := c.p.objects.of(c.key)
		for _, id := range ids {
			if k, ok := c.p.objects.look(id, c.key, false); ok && strings.HasPrefix(id, "video_") {
				data = append(data, c.videoObject(id, k))
			}
		}
		c.answerJSON(obj("object", "list", "data", data, "has_more", false))
	case DeleteVideo:
		if !c.p.objects.drop(name, c.key) {
			c.writeFailure(missing)
			return
		}
		c.answerJSON(obj("id", name, "object", "video.deleted", "deleted", true))
	case VideoContent:
		k, ok := c.p.objects.look(name, c.key, false)
		switch {
		case !ok:
			c.writeFailure(missing)
		case k.asked < 2:
			c.writeFailure(Failure{Kind: NotFound, Message: "Video is not ready yet, use GET /v1/videos/{video_id} to check status."})
		default:
			c.playBinary("video/mp4", append([]byte("\x00\x00\x00\x18ftypmp42"), bytes.Repeat([]byte(name), 3000)...))
		}
	default:
		k, ok := c.p.objects.look(name, c.key, true)
		if !ok {
			c.writeFailure(missing)
			return
		}
		c.answerJSON(c.videoObject(name, k))
	}
}

func (c *call) videoObject(id string, k kept) object {
	status, progress := "queued", 0
	switch {
	case k.asked == 1:
		status, progress = "in_progress", 50
	case k.asked > 1:
		status, progress = "completed", 100
	}
	return obj("id", id, "object", "video", "created_at", c.p.cfg.Now().Unix(), "status", status, "progress", progress, "model", k.model,
		"prompt", k.prompt, "seconds", k.seconds, "size", k.size, "remixed_from_video_id", nullable(k.from), "error", nil)
}

// longRunning is how Gemini's API makes videos: an operation that is done when it is
// asked for the second time.
func (c *call) longRunning() {
	if c.operation == PredictLong {
		name := "models/" + c.model + "/operations/" + c.ids.short("", len(c.p.objects.of(c.key)), 20)
		c.p.objects.add(name, &kept{key: c.key})
		c.answerJSON(obj("name", name))
		return
	}
	name := c.r.URL.Path[strings.Index(c.r.URL.Path, "/models/")+1:]
	k, ok := c.p.objects.look(name, c.key, true)
	switch {
	case !ok:
		c.writeFailure(Failure{Kind: NotFound, Status: http.StatusNotFound, Message: "Operation " + name + " not found."})
	case k.asked < 2:
		c.answerJSON(obj("name", name, "done", false))
	default:
		c.answerJSON(obj("name", name, "done", true, "response", obj("@type", "type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse",
			"generateVideoResponse", obj("generatedSamples", list{obj("video", obj("uri", "https://videos.example/"+c.ids.short("", 0, 8)))}))))
	}
}

package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// upstreamIs gives the model another name at the provider.
func upstreamIs(name string) rigOption {
	return func(ts *syncv1.TenantShard) { ts.Models[0].UpstreamModel = name }
}

func TestPicturesAreBookedByTokensWhereTheProviderTellsThem(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.openai()
	resp, err := c.Images.Generate(t.Context(), openai.ImageGenerateParams{Model: "m", Prompt: "a lighthouse", N: openai.Int(2)})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Data) != 2 || resp.Data[0].B64JSON == "" {
		t.Fatalf("got %d pictures", len(resp.Data))
	}
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 10, ImageIn: 40, ImageOut: 200, Request: 1})
}

func TestPicturesAreBookedByThePieceElse(t *testing.T) {
	t.Parallel()
	g := newRig(t, upstreamIs("dall-e-3"))
	c := g.openai()
	if _, err := c.Images.Generate(t.Context(), openai.ImageGenerateParams{Model: "m", Prompt: "a lighthouse", N: openai.Int(3)}); err != nil {
		t.Fatal(err)
	}
	wantUnits(t, g.only(t), estimated, &ledgerv1.Units{ImageUnit: 3, Request: 1})
}

func TestStreamOfPicturesPassesThroughAndAddsUp(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 3} {
		g := newRig(t)
		c := g.openai()
		s := c.Images.GenerateStreaming(t.Context(), openai.ImageGenerateParams{Model: "m", Prompt: "a lighthouse", N: openai.Int(n), PartialImages: openai.Int(2)})
		partial, completed := int64(0), int64(0)
		for s.Next() {
			switch s.Current().Type {
			case "image_generation.partial_image":
				partial++
			case "image_generation.completed":
				completed++
			}
		}
		if err := s.Err(); err != nil || partial != 2*n || completed != n {
			t.Errorf("n=%d: %d partial and %d whole pictures, %v", n, partial, completed, err)
		}
		e := g.only(t)
		wantUnits(t, e, byProvider, &ledgerv1.Units{Input: 10 * n, ImageIn: 40 * n, ImageOut: 100 * n, Request: 1})
		if e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED || !e.GetStream() {
			t.Errorf("n=%d: outcome %v, stream %v", n, e.GetOutcome(), e.GetStream())
		}
	}
}

// A stream that breaks between two pictures ends in an error and is booked as broken.
func TestStreamOfPicturesThatBreaksEndsInAnError(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultCut, FaultAfter: 1})
	resp, body := g.send(t, "POST", "/v1/images/generations", "application/json", `{"model":"m","prompt":"x","n":2,"stream":true}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "stream_incomplete") {
		t.Errorf("status %d: %s; want a stream that ends in an error", resp.StatusCode, body)
	}
	if e := g.only(t); e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN {
		t.Errorf("outcome %v", e.GetOutcome())
	}
}

// The provider's own error event reaches the caller as it is; before any content it
// leads to the other account.
func TestStreamOfPicturesThatReportsAnError(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","prompt":"x","n":3,"stream":true}`
	g := newRig(t)
	g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultErrorEvent, FaultAfter: 1, FaultError: &fakeprovider.Failure{Kind: fakeprovider.ServerError, Message: "the studio burns"}})
	resp, got := g.send(t, "POST", "/v1/images/generations", "application/json", body)
	if resp.StatusCode != http.StatusOK || !strings.Contains(got, "the studio burns") || strings.Count(got, ".completed") != 2 {
		t.Errorf("status %d: %s; want one picture and the provider's error", resp.StatusCode, got)
	}
	g = newRig(t, elsewhere)
	g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Step{Fault: fakeprovider.FaultErrorEvent, FaultAfter: -1})
	for range 2 {
		if resp, got := g.send(t, "POST", "/v1/images/generations", "application/json", body); resp.StatusCode != http.StatusOK || resp.Header.Get("X-Gateway-Scheduled-Credential-Id") != "crd_b" {
			t.Errorf("status %d: %.300s", resp.StatusCode, got)
		}
	}
}

func TestEditsAndVariationsOfPicturesKeepTheirFiles(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.openai()
	picture := bytes.Repeat([]byte{0, 1, 2, '\r', '\n', '-', '-', 255}, 40000)
	_, err := c.Images.Edit(t.Context(), openai.ImageEditParams{
		Model: "m", Prompt: "brighter", Image: openai.ImageEditParamsImageUnion{OfFile: openai.File(bytes.NewReader(picture), "a.png", "image/png")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.last(t); got.Model != "fake-large" || !bytes.Contains(got.Body, picture) {
		t.Errorf("the upstream got the model %q, or not the picture that was sent", got.Model)
	}
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 10, ImageIn: 40, ImageOut: 100, Request: 1})
	if _, err = c.Images.NewVariation(t.Context(), openai.ImageNewVariationParams{Model: "m", Image: bytes.NewReader(picture)}); err != nil {
		t.Error(err)
	}
}

func TestPicturesOfGeminiAreBookedByThePiece(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp, body := g.send(t, "POST", "/v1beta/models/m:predict", "application/json", `{"instances":[{"prompt":"a lighthouse"}],"parameters":{"sampleCount":2}}`)
	if resp.StatusCode != http.StatusOK || strings.Count(body, "bytesBase64Encoded") != 2 {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	if got := g.last(t); got.Path != "/v1beta/models/fake-large:predict" {
		t.Errorf("the upstream was called at %q", got.Path)
	}
	wantUnits(t, g.only(t), estimated, &ledgerv1.Units{ImageUnit: 2, Request: 1})
}

// Sound comes as the provider sends it, and is booked by the text and its length.
func TestSpeechIsRelayedAsItComes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("sixteen letters ", 10) // ten seconds
	for format, kind := range map[string]string{"wav": "audio/wav", "pcm": "audio/pcm", "mp3": "audio/mpeg", "flac": "audio/flac"} {
		g := newRig(t)
		c := g.openai()
		resp, err := c.Audio.Speech.New(t.Context(), openai.AudioSpeechNewParams{
			Model: "m", Input: text, Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("alloy")},
			ResponseFormat: openai.AudioSpeechNewParamsResponseFormat(format),
		})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		sound, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Header.Get("Content-Type") != kind {
			t.Errorf("%s: %v, content type %q", format, err, resp.Header.Get("Content-Type"))
		}
		if format == "wav" && !bytes.Equal(sound, fakeprovider.Wav(10)) {
			t.Errorf("wav: %d bytes of sound are not those of the provider", len(sound))
		}
		e := g.only(t)
		want := &ledgerv1.Units{Input: 40, AudioSecond: 10, Request: 1}
		if format == "flac" || format == "mp3" { // by the usual rate, which this sound has not
			want.AudioSecond = e.GetUnits().GetAudioSecond()
		}
		wantUnits(t, e, estimated, want)
		if e.GetUnits().GetAudioSecond() == 0 {
			t.Errorf("%s: no seconds are booked", format)
		}
	}
}

func TestStreamOfSpeechTellsItsTokens(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp, body := g.send(t, "POST", "/v1/audio/speech", "application/json",
		`{"model":"m","voice":"alloy","input":"sixteen letters ","stream_format":"sse","response_format":"pcm"}`)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || !strings.Contains(body, "speech.audio.done") {
		t.Fatalf("status %d: %.300s", resp.StatusCode, body)
	}
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 4, AudioOut: 10, Request: 1})
}

func TestTranscriptsAreBookedAsTheProviderTells(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, upstream, format string
		source                 ledgerv1.UsageSource
		want                   *ledgerv1.Units
	}{
		{"tokens", "fake-large", "json", byProvider, &ledgerv1.Units{Input: 4, AudioIn: 30, Output: 12, Request: 1}},
		{"length", "whisper-1", "json", byProvider, &ledgerv1.Units{AudioSecond: 3, Request: 1}},
		{"length beside the text", "fake-large", "verbose_json", byProvider, &ledgerv1.Units{AudioSecond: 3, Request: 1}},
		{"plain text", "fake-large", "text", estimated, &ledgerv1.Units{AudioSecond: 3, Request: 1}},
		{"subtitles", "fake-large", "srt", estimated, &ledgerv1.Units{AudioSecond: 3, Request: 1}},
		{"subtitles of the web", "fake-large", "vtt", estimated, &ledgerv1.Units{AudioSecond: 3, Request: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, upstreamIs(tc.upstream))
			form, kind := formOf("model", "m", "response_format", tc.format, "file", "@"+string(fakeprovider.Wav(3)))
			resp, body := g.send(t, "POST", "/v1/audio/transcriptions", kind, form)
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, "This is") {
				t.Fatalf("status %d: %s", resp.StatusCode, body)
			}
			if tc.format != "json" && tc.format != "verbose_json" && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
				t.Errorf("content type %q", resp.Header.Get("Content-Type"))
			}
			wantUnits(t, g.only(t), tc.source, tc.want)
		})
	}
}

func TestTranscriptsAndTranslationsThroughTheSDK(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.openai()
	sound := openai.File(bytes.NewReader(fakeprovider.Wav(2)), "talk.wav", "audio/wav")
	tr, err := c.Audio.Transcriptions.New(t.Context(), openai.AudioTranscriptionNewParams{Model: "m", File: sound})
	if err != nil || tr.Text != "This is talk.wav of 2 seconds." {
		t.Errorf("transcript %q, %v", tr.Text, err)
	}
	if got := g.last(t); got.Model != "fake-large" {
		t.Errorf("the upstream was asked for %q", got.Model)
	}
	sound = openai.File(bytes.NewReader(fakeprovider.Wav(2)), "talk.wav", "audio/wav")
	if tl, err := c.Audio.Translations.New(t.Context(), openai.AudioTranslationNewParams{Model: "m", File: sound}); err != nil || tl.Text == "" {
		t.Errorf("translation %v, %v", tl, err)
	}
	sound = openai.File(bytes.NewReader(fakeprovider.Wav(2)), "talk.wav", "audio/wav")
	s := c.Audio.Transcriptions.NewStreaming(t.Context(), openai.AudioTranscriptionNewParams{Model: "m", File: sound})
	text, done := "", ""
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "transcript.text.delta":
			text += e.Delta
		case "transcript.text.done":
			done = e.Text
		}
	}
	if err := s.Err(); err != nil || text == "" || text != done {
		t.Errorf("stream of %q, ended by %q, %v", text, done, err)
	}
	events := g.settled(t, 3)
	wantUnits(t, events[2], byProvider, &ledgerv1.Units{Input: 4, AudioIn: 20, Output: 12, Request: 1})
}

func TestMediaFailOverToTheOtherAccount(t *testing.T) {
	t.Parallel()
	form, kind := formOf("model", "m", "file", "@"+string(fakeprovider.Wav(1)))
	for _, tc := range []struct{ path, kind, body string }{
		{"/v1/images/generations", "application/json", `{"model":"m","prompt":"x"}`},
		{"/v1/images/generations", "application/json", `{"model":"m","prompt":"x","stream":true}`},
		{"/v1/audio/speech", "application/json", `{"model":"m","voice":"v","input":"x"}`},
		{"/v1/audio/transcriptions", kind, form},
		{"/v1/moderations", "application/json", `{"model":"m","input":"x"}`},
		{"/v1/rerank", "application/json", `{"model":"m","query":"x","documents":["x"]}`},
		{"/v1beta/models/m:predict", "application/json", `{"instances":[{"prompt":"x"}]}`},
	} {
		for _, kind := range []fakeprovider.ErrorKind{fakeprovider.RateLimited, fakeprovider.Unavailable} {
			g := newRig(t, elsewhere)
			g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Fail(kind))
			for range 2 {
				resp, body := g.send(t, "POST", tc.path, tc.kind, tc.body)
				if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Gateway-Scheduled-Credential-Id") != "crd_b" {
					t.Errorf("%s after %s: status %d: %.200s", tc.path, kind, resp.StatusCode, body)
				}
			}
		}
	}
}

func TestModerationIsFree(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.openai()
	resp, err := c.Moderations.New(t.Context(), openai.ModerationNewParams{
		Model: "m", Input: openai.ModerationNewParamsInputUnion{OfStringArray: []string{"a walk", "an attack"}},
	})
	if err != nil || len(resp.Results) != 2 || resp.Results[0].Flagged || !resp.Results[1].Flagged {
		t.Fatalf("got %v, %v", resp, err)
	}
	wantUnits(t, g.only(t), estimated, &ledgerv1.Units{Request: 1})
}

func TestRerankIsBookedInTheUnitsItIsSoldIn(t *testing.T) {
	t.Parallel()
	documents, _ := json.Marshal(append(make([]string, 149), "the sea at night"))
	body := `{"model":"m","query":"the sea","top_n":1,"documents":` + string(documents) + `}`
	for _, path := range []string{"/v1/rerank", "/v2/rerank", "/rerank"} {
		g := newRig(t)
		resp, got := g.send(t, "POST", path, "application/json", body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(got, `"index":149`) {
			t.Fatalf("%s: status %d: %s", path, resp.StatusCode, got)
		}
		wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Request: 2}) // a search unit is a hundred documents
	}
	g := newRig(t, upstreamIs("jina-reranker"))
	if resp, got := g.send(t, "POST", "/v1/rerank", "application/json", `{"model":"m","query":"sea","documents":["12345678"]}`); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, got)
	}
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 3, Request: 1}) // ten bytes of JSON
}

func TestCompactionPassesThrough(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp, body := g.send(t, "POST", "/v1/responses/compact", "application/json", `{"model":"m","input":"a long conversation"}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, "response.compaction") {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	if got := g.last(t); got.Path != "/v1/responses/compact" || got.Model != "fake-large" {
		t.Errorf("the upstream was asked for %q at %q", got.Model, got.Path)
	}
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 6, Output: 7, Request: 1})
}

// A provider that is configured for Responses alone has the vendor's other endpoints too.
func TestEndpointsOfOpenAIBelongToBothOfItsProtocols(t *testing.T) {
	t.Parallel()
	for _, p := range []configv1.Protocol{configv1.Protocol_PROTOCOL_OPENAI_CHAT, configv1.Protocol_PROTOCOL_OPENAI_RESPONSES} {
		g := newRig(t, offering(p), func(ts *syncv1.TenantShard) { ts.Routes[0].Protocols = []configv1.Protocol{p} })
		if resp, body := g.send(t, "POST", "/v1/moderations", "application/json", `{"model":"m","input":"x"}`); resp.StatusCode != http.StatusOK {
			t.Errorf("%v: status %d: %s", p, resp.StatusCode, body)
		}
	}
	g := newRig(t, offering(configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES))
	if resp, body := g.send(t, "POST", "/v1/moderations", "application/json", `{"model":"m","input":"x"}`); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "anthropic_messages") {
		t.Errorf("status %d: %s; want a refusal that names what is spoken", resp.StatusCode, body)
	}
	g = newRig(t, func(ts *syncv1.TenantShard) {
		ts.Routes[0].Protocols = []configv1.Protocol{configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES}
	})
	if resp, body := g.send(t, "POST", "/v1/moderations", "application/json", `{"model":"m","input":"x"}`); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d: %s; want a refusal by the route", resp.StatusCode, body)
	}
}

// A caller that leaves before there is an answer is booked with what it asked for, and
// not with more than any vendor makes.
func TestEstimatesOfWhatIsAskedForAreBounded(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*ledgerv1.Units{
		`{"model":"m","prompt":"x","n":2}`:      {ImageUnit: 2, Request: 1},
		`{"model":"m","prompt":"x","n":900000}`: {ImageUnit: 16, Request: 1},
	} {
		g := newRig(t)
		gate := make(chan struct{})
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{HeaderGate: gate})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/images/generations", strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+testKey)
			_, err := http.DefaultClient.Do(req)
			done <- err
		}()
		for len(g.provider.Requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("the request was answered")
		}
		e := g.only(t)
		close(gate)
		if e.GetUnits().String() != want.String() || e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED {
			t.Errorf("%s: booked with %v, %v; want %v", body, e.GetUnits(), e.GetOutcome(), want)
		}
	}
}

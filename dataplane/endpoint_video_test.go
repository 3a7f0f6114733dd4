package dataplane

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// A video is followed on the account that makes it, whichever account is next in turn.
func TestVideosAreFollowedOnTheAccountThatMakesThem(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.openai()
	for range 2 { // both accounts
		v, err := c.Videos.New(t.Context(), openai.VideoNewParams{Model: "m", Prompt: "the sea", Seconds: "8"})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(v.ID, "video_gw1_") || v.Status != "queued" {
			t.Fatalf("video %q is %s, want an id of the gateway's", v.ID, v.Status)
		}
		owner := g.last(t).Key
		for _, want := range []openai.VideoStatus{"in_progress", "completed"} {
			got, err := c.Videos.Get(t.Context(), v.ID)
			if err != nil || got.ID != v.ID || got.Status != want {
				t.Fatalf("the video is %q, %s, %v; want %q, %s", got.ID, got.Status, err, v.ID, want)
			}
		}
		resp, err := c.Videos.DownloadContent(t.Context(), v.ID, openai.VideoDownloadContentParams{})
		if err != nil {
			t.Fatal(err)
		}
		film, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Header.Get("Content-Type") != "video/mp4" || !bytes.HasPrefix(film[4:], []byte("ftyp")) || len(film) < 100000 {
			t.Errorf("%d bytes of %q, %v", len(film), resp.Header.Get("Content-Type"), err)
		}
		remix, err := c.Videos.Remix(t.Context(), v.ID, openai.VideoRemixParams{Prompt: "at night"})
		if err != nil || remix.RemixedFromVideoID != v.ID || remix.ID == v.ID {
			t.Errorf("remix %q of %q, %v", remix.ID, remix.RemixedFromVideoID, err)
		}
		if got, err := c.Videos.Delete(t.Context(), v.ID); err != nil || got.ID != v.ID || !got.Deleted {
			t.Errorf("deleted %v, %v", got, err)
		}
		if g.last(t).Key != owner {
			t.Errorf("the video of one account was deleted at another")
		}
		if _, err := c.Videos.Get(t.Context(), v.ID); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("a deleted video gives %v, want a 404", err)
		}
	}
	for _, e := range g.settled(t, 4) { // two videos and two remixes; looking at them is free
		wantUnits(t, e, byProvider, &ledgerv1.Units{VideoSecond: 8, Request: 1})
	}
}

func TestVideosMadeOfAFormAndBarePaths(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	body, kind := formOf("model", "m", "prompt", "the sea", "input_reference", "@picture")
	resp, got := g.send(t, "POST", "/videos", kind, body)
	if resp.StatusCode != http.StatusOK || !strings.Contains(got, `"id":"video_gw1_`) {
		t.Fatalf("status %d: %s", resp.StatusCode, got)
	}
	id := strings.SplitN(strings.SplitN(got, `"id":"`, 2)[1], `"`, 2)[0]
	if resp, got := g.send(t, "GET", "/videos/"+id, "", ""); resp.StatusCode != http.StatusOK || !strings.Contains(got, id) {
		t.Errorf("status %d: %s", resp.StatusCode, got)
	}
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{VideoSecond: 4, Request: 1})
}

// Beginning a video again could make, and cost, two.
func TestVideosAreNotBegunTwice(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultCut, Raw: []byte(`{"id":"video_1"}`)})
	if resp, body := g.send(t, "POST", "/v1/videos", "application/json", `{"model":"m","prompt":"x"}`); resp.StatusCode < 500 {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	if n := len(g.provider.Requests()); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func TestVideosOfNobodyKnownAreRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp, body := g.send(t, "GET", "/v1/videos/video_abc", "", "")
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "this gateway") {
		t.Errorf("status %d: %s, want a 404 that says whose ids are known", resp.StatusCode, body)
	}
	if resp, body := g.send(t, "GET", "/v1/videos", "", ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Keep the id") {
		t.Errorf("a list: status %d: %s, want a refusal: it would show the videos of others", resp.StatusCode, body)
	}
	if n := len(g.provider.Requests()); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
	g = newRig(t, oneAccount)
	if resp, body := g.send(t, "GET", "/v1/videos/video_abc", "", ""); resp.StatusCode != http.StatusNotFound || len(g.provider.Requests()) != 1 {
		t.Errorf("status %d: %s, want the 404 of the only account there is", resp.StatusCode, body)
	}
}

func TestVideosOfGeminiAreFollowedOnTheAccountThatMakesThem(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.gemini(t)
	for range 2 {
		seconds := int32(6)
		op, err := c.Models.GenerateVideos(t.Context(), "m", "the sea", nil, &genai.GenerateVideosConfig{NumberOfVideos: 2, DurationSeconds: &seconds})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(op.Name, "models/fake-large/operations/gw1_") {
			t.Errorf("the operation is called %q", op.Name)
		}
		for _, done := range []bool{false, true} {
			if op, err = c.Operations.GetVideosOperation(t.Context(), op, nil); err != nil || op.Done != done {
				t.Fatalf("the operation is done: %v, %v; want %v", op.Done, err, done)
			}
		}
		if len(op.Response.GeneratedVideos) != 1 {
			t.Errorf("%d videos", len(op.Response.GeneratedVideos))
		}
	}
	for _, e := range g.settled(t, 2) {
		wantUnits(t, e, estimated, &ledgerv1.Units{VideoSecond: 12, Request: 1})
	}
}

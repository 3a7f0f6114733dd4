package dataplane

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func wrapped(id string) bool { return strings.Contains(id, "gw1_") }

// owned checks that the newest requests all went to one account, and with its own ids.
func (g *rig) owned(t testing.TB, owner string, n int) {
	t.Helper()
	all := g.provider.Requests()
	for _, r := range all[len(all)-n:] {
		if r.Key != owner {
			t.Errorf("%s %s went to another account than the owner", r.Method, r.Path)
		}
		if strings.Contains(r.Path+string(r.Body)+r.Query.Encode(), "gw1_") {
			t.Errorf("%s %s has an id of the gateway's: %s", r.Method, r.Path, r.Body)
		}
	}
}

func TestOpenAIFilesAndBatchesStayWithTheirAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	c := g.openai()
	const content = `{"custom_id":"one","method":"POST","url":"/v1/chat/completions","body":{"model":"fake-large"}}` + "\n"
	owners := make(map[string]bool)
	for range 4 {
		file, err := c.Files.New(t.Context(), openai.FileNewParams{
			File: openai.File(strings.NewReader(content), "in.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
		})
		if err != nil || !wrapped(file.ID) {
			t.Fatalf("file %+v, %v", file, err)
		}
		owner := g.last(t).Key
		owners[owner] = true
		if got, err := c.Files.Get(t.Context(), file.ID); err != nil || got.ID != file.ID {
			t.Errorf("got %+v, %v", got, err)
		}
		resp, err := c.Files.Content(t.Context(), file.ID)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != content {
			t.Errorf("content %q, want %q", body, content)
		}
		batch, err := c.Batches.New(t.Context(), openai.BatchNewParams{
			InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
		})
		if err != nil || !wrapped(batch.ID) || batch.InputFileID != file.ID || batch.OutputFileID != file.ID {
			t.Fatalf("batch %+v, %v", batch, err)
		}
		if got, err := c.Batches.Get(t.Context(), batch.ID); err != nil || got.ID != batch.ID {
			t.Errorf("got %+v, %v", got, err)
		}
		if got, err := c.Batches.Cancel(t.Context(), batch.ID); err != nil || got.ID != batch.ID || got.Status != "cancelled" {
			t.Errorf("cancelled %+v, %v", got, err)
		}
		if got, err := c.Files.Delete(t.Context(), file.ID); err != nil || !got.Deleted {
			t.Errorf("deleted %+v, %v", got, err)
		}
		g.owned(t, owner, 7)
	}
	if len(owners) != 2 {
		t.Errorf("all files went to %v: nothing was tried", owners)
	}
}

func TestFileGoesToAnotherAccountIfTheFirstIsAtItsLimit(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	g.limit(keyA)
	c := g.openai()
	for range 3 {
		file, err := c.Files.New(t.Context(), openai.FileNewParams{File: strings.NewReader("x"), Purpose: openai.FilePurposeUserData})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Files.Get(t.Context(), file.ID); err != nil {
			t.Error(err)
		}
		g.owned(t, keyB, 1)
	}
}

func TestRequestThatNamesAFileGoesToItsAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	c := g.openai()
	for range 4 {
		file, err := c.Files.New(t.Context(), openai.FileNewParams{File: strings.NewReader("x"), Purpose: openai.FilePurposeUserData})
		if err != nil {
			t.Fatal(err)
		}
		owner := g.last(t).Key
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"ID"}}]}]}`,
			"/v1/messages":         `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"ID"}}]}]}`,
			"/v1/responses":        `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"ID"}]}]}`,
		} {
			if resp, got := g.send(t, http.MethodPost, path, "application/json", strings.ReplaceAll(body, "ID", file.ID), "Anthropic-Version", "2023-06-01"); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d: %s", path, resp.StatusCode, got)
			}
			g.owned(t, owner, 1)
		}
	}
}

func TestStoredChatCompletionIsAskedOfItsOwner(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	c := g.openai()
	for range 4 {
		made, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: "m", Store: openai.Bool(true), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello there")},
		})
		if err != nil || !wrapped(made.ID) {
			t.Fatalf("made %q, %v", made.ID, err)
		}
		owner := g.last(t).Key
		if got, err := c.Chat.Completions.Get(t.Context(), made.ID); err != nil || got.ID != made.ID {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := c.Chat.Completions.Messages.List(t.Context(), made.ID, openai.ChatCompletionMessageListParams{}); err != nil {
			t.Error(err)
		}
		if _, err := c.Chat.Completions.Delete(t.Context(), made.ID); err != nil {
			t.Error(err)
		}
		g.owned(t, owner, 3)
	}
	if made, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello there")},
	}); err != nil || wrapped(made.ID) {
		t.Errorf("a completion that nobody stores has the id %q, %v", made.ID, err)
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: "m", Store: openai.Bool(true), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello there")},
	})
	for n := 0; stream.Next(); n++ {
		if id := stream.Current().ID; !wrapped(id) {
			t.Errorf("chunk %d has the id %q", n, id)
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
}

func TestAnthropicBatchesAndFilesStayWithTheirAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	c := g.anthropic()
	for range 4 {
		batch, err := c.Messages.Batches.New(t.Context(), anthropic.MessageBatchNewParams{Requests: []anthropic.MessageBatchNewParamsRequest{{
			CustomID: "one",
			Params: anthropic.MessageBatchNewParamsRequestParams{
				Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
			},
		}}})
		if err != nil || !wrapped(batch.ID) {
			t.Fatalf("batch %+v, %v", batch, err)
		}
		if last := g.last(t); !strings.Contains(string(last.Body), `"model":"fake-large"`) {
			t.Errorf("the provider got %s", last.Body)
		}
		owner := g.last(t).Key
		if want := "/v1/messages/batches/" + batch.ID + "/results"; batch.ResultsURL != want {
			t.Errorf("results are at %q, want %q", batch.ResultsURL, want)
		}
		if got, err := c.Messages.Batches.Get(t.Context(), batch.ID, anthropic.MessageBatchGetParams{}); err != nil || got.ID != batch.ID {
			t.Errorf("got %+v, %v", got, err)
		}
		results, n := c.Messages.Batches.ResultsStreaming(t.Context(), batch.ID, anthropic.MessageBatchResultsParams{}), 0
		for results.Next() {
			n++
		}
		if results.Err() != nil || n != 1 {
			t.Errorf("%d results, %v", n, results.Err())
		}
		if _, err := c.Messages.Batches.Delete(t.Context(), batch.ID, anthropic.MessageBatchDeleteParams{}); err != nil {
			t.Error(err)
		}
		g.owned(t, owner, 4)

		file, err := c.Beta.Files.Upload(t.Context(), anthropic.BetaFileUploadParams{File: anthropic.File(strings.NewReader("text"), "a.txt", "text/plain")})
		if err != nil || !wrapped(file.ID) {
			t.Fatalf("file %+v, %v", file, err)
		}
		owner = g.last(t).Key
		if got, err := c.Beta.Files.GetMetadata(t.Context(), file.ID, anthropic.BetaFileGetMetadataParams{}, anthropicoption.WithHeader("anthropic-beta", "files-api-2025-04-14")); err != nil || got.ID != file.ID {
			t.Errorf("got %+v, %v", got, err)
		}
		if g.last(t).Header.Get("Anthropic-Beta") == "" {
			t.Error("the beta header did not reach the provider")
		}
		if _, err := c.Beta.Files.Delete(t.Context(), file.ID, anthropic.BetaFileDeleteParams{}, anthropicoption.WithMaxRetries(0)); err != nil {
			t.Error(err)
		}
		g.owned(t, owner, 3)
	}
}

func TestBatchOfSeveralModelsIsRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp, body := g.send(t, http.MethodPost, "/v1/messages/batches", "application/json",
		`{"requests":[{"custom_id":"1","params":{"model":"m"}},{"custom_id":"2","params":{"model":"alias"}}]}`, "Anthropic-Version", "2023-06-01")
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "several models") || len(g.askedBy()) > 0 {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
}

func TestCachedContentIsUsedAtItsAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	c := g.gemini(t)
	for range 4 {
		cache, err := c.Caches.Create(t.Context(), "m", &genai.CreateCachedContentConfig{Contents: genai.Text("a long text")})
		if err != nil || !wrapped(cache.Name) {
			t.Fatalf("cache %+v, %v", cache, err)
		}
		if last := g.last(t); !strings.Contains(string(last.Body), `"models/fake-large"`) {
			t.Errorf("the provider got %s", last.Body)
		}
		owner := g.last(t).Key
		if got, err := c.Caches.Get(t.Context(), cache.Name, nil); err != nil || got.Name != cache.Name {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := c.Models.GenerateContent(t.Context(), "m", genai.Text("go on"), &genai.GenerateContentConfig{CachedContent: cache.Name}); err != nil {
			t.Error(err)
		}
		if _, err := c.Caches.Delete(t.Context(), cache.Name, nil); err != nil {
			t.Error(err)
		}
		g.owned(t, owner, 4)
	}
}

func TestListOfAnAccountIsForThoseWhoHaveItAlone(t *testing.T) {
	t.Parallel()
	open := func(ts *syncv1.TenantShard) { ts.Routes[0].DisableAuth = true }
	for _, path := range []string{"/v1/files", "/v1/batches", "/v1/chat/completions", "/v1/messages/batches", "/v1beta/cachedContents"} {
		g := newRig(t, withOneAccount)
		if resp, body := g.send(t, http.MethodGet, path, "", ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "share") || len(g.askedBy()) > 0 {
			t.Errorf("%s for the key of a consumer: status %d: %s", path, resp.StatusCode, body)
		}
		if resp, body := newRig(t, elsewhere, open).send(t, http.MethodGet, path, "", ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "list of its own") {
			t.Errorf("%s of two accounts: status %d: %s", path, resp.StatusCode, body)
		}
		if resp, body := newRig(t, withOneAccount, open).send(t, http.MethodGet, path, "", ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s of one account: status %d: %s", path, resp.StatusCode, body)
		}
	}
	g := newRig(t, elsewhere, open)
	c := g.openai()
	for range 3 {
		file, err := c.Files.New(t.Context(), openai.FileNewParams{File: strings.NewReader("x"), Purpose: openai.FilePurposeUserData})
		if err != nil {
			t.Fatal(err)
		}
		owner := g.last(t).Key
		if _, err := c.Files.List(t.Context(), openai.FileListParams{After: openai.String(file.ID)}); err != nil {
			t.Error(err)
		}
		g.owned(t, owner, 1)
	}
}

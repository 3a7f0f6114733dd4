package dataplane

import (
	"testing"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/realtime"
)

// OpenAI's own SDK holds a session through the gateway.
func TestSDKHoldsARealtimeSession(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	c := g.openai()
	conn, err := c.Realtime.Connect(t.Context(), realtime.RealtimeConnectionOptions{}, option.WithQuery("model", "m"))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{askAloud, answerMe} {
		if err := conn.SendRaw(t.Context(), []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	for kind := ""; kind != "response.done"; {
		e, err := conn.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kind = e.Type
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	g.free(t)
	if e := g.only(t); e.GetUsageSource() != byProvider {
		t.Errorf("booked by %v", e.GetUsageSource())
	}
}

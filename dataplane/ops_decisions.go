package dataplane

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
)

// maxQuestion bounds a question: the largest body of a call, and what stands around it.
const maxQuestion = inbound.MaxBodyLimit + 64<<10

// Bounds of a page of decisions.
const (
	defaultDecisions = 50
	maxDecisions     = 1000
)

// decided is a decision in a list.
type decided struct {
	ID        string    `json:"id"`
	RequestID string    `json:"request_id"`
	At        time.Time `json:"at"`
	Tenant    string    `json:"tenant"`
	Model     string    `json:"model"`
	Chosen    string    `json:"chosen,omitempty"`
	Stage     string    `json:"stage,omitempty"`
	How       string    `json:"how,omitempty"`
	Affinity  string    `json:"affinity,omitempty"`
	Attempts  int       `json:"attempts"`
	Stop      string    `json:"stop"`
	Refusal   string    `json:"refusal,omitempty"` // code
}

// listDecisions pages through the decisions that the node keeps, the newest first.
func (n *Node) listDecisions(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := defaultDecisions
	if v := query.Get("limit"); v != "" {
		var err error
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 || limit > maxDecisions {
			opsError(w, http.StatusBadRequest, "limit is a number from 1 to "+strconv.Itoa(maxDecisions))
			return
		}
	}
	tenant, model := query.Get("tenant"), query.Get("model")
	list := n.decisions.Latest(query.Get("before"), limit, func(rec *decision.Record) bool {
		return (tenant == "" || rec.Features.Tenant == tenant) && (model == "" || rec.Features.Model == model)
	})
	out := struct {
		Decisions []decided `json:"decisions"`
		Next      string    `json:"next,omitempty"` // for ?before=
	}{Decisions: make([]decided, 0, len(list))}
	for _, rec := range list {
		d := decided{
			ID: rec.ID, RequestID: rec.RequestID, At: rec.At, Tenant: rec.Features.Tenant, Model: rec.Features.Model,
			Chosen: rec.Chosen, Stage: rec.Stage, Affinity: rec.Affinity.Outcome, Attempts: len(rec.Attempts), Stop: rec.Stop,
		}
		if len(rec.Selections) > 0 {
			d.How = rec.Selections[len(rec.Selections)-1].How
		}
		if rec.Refusal != nil {
			d.Refusal = rec.Refusal.Code
		}
		out.Decisions = append(out.Decisions, d)
	}
	if len(list) == limit {
		out.Next = list[len(list)-1].ID
	}
	writeJSON(w, http.StatusOK, out)
}

// getDecision shows the decision of that id, or of the request of that id.
func (n *Node) getDecision(w http.ResponseWriter, r *http.Request) {
	rec := n.decisions.Find(r.PathValue("id"))
	if rec == nil {
		opsError(w, http.StatusNotFound, "this node does not keep a decision of that id: it was made by another node, before the last start, or too long ago")
		return
	}
	writeJSON(w, http.StatusOK, rec)
}

// explain answers a question about a call that nobody makes.
func (n *Node) explain(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			opsError(w, http.StatusRequestEntityTooLarge, "the question is larger than any body that the gateway takes")
			return
		}
		opsError(w, http.StatusBadRequest, "the question could not be read")
		return
	}
	q, f := ReadQuestion(data)
	if f == nil {
		var rec *decision.Record
		if rec, f = n.Explain(q, time.Now()); f == nil {
			writeJSON(w, http.StatusOK, rec)
			return
		}
	}
	opsError(w, f.Status(), f.Text())
}

func opsError(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // a reader that is gone needs no answer
}

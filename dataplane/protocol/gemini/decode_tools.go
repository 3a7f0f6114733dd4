package gemini

import "github.com/aidy-gateway/aidy-gateway/dataplane/llm"

// tool reads an element of tools: an object whose members are functions and tools that
// the provider runs.
func (d *requestDecoder) tool() {
	const at = "tools[]"
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return
	}
	for d.r.Next() {
		if d.r.Kind() == 'n' {
			continue
		}
		key := d.key()
		switch string(key) {
		case "functionDeclarations":
			d.each(at+".functionDeclarations", maxTools, d.function)
		case "codeExecution", "computerUse", "enterpriseWebSearch", "exaAiSearch", "fileSearch", "googleMaps",
			"googleSearch", "googleSearchRetrieval", "parallelAiSearch", "retrieval", "urlContext":
			name := string(key)
			d.add(llm.Tool{Server: name, Native: d.schema(at + "." + name)})
		case "mcpServers":
			if raw := d.r.Value(); len(raw) > 0 && raw[0] != '[' {
				d.wrong(at+".mcpServers", "a list")
			} else {
				d.add(llm.Tool{Server: "mcpServers", Native: raw})
			}
		default:
			d.unknown(at)
		}
	}
}

func (d *requestDecoder) add(t llm.Tool) {
	if len(d.req.Tools) == maxTools {
		d.refuse("tools", "has more tools than the gateway takes")
		return
	}
	d.req.Tools = append(d.req.Tools, t)
}

func (d *requestDecoder) function() {
	const at = "tools[].functionDeclarations[]"
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return
	}
	var t llm.Tool
	var open []byte // parameters in the OpenAPI form
	for d.r.Next() {
		if d.r.Kind() == 'n' {
			continue
		}
		key := d.key()
		switch string(key) {
		case "name":
			t.Name = d.word(at + ".name")
		case "description":
			t.Description = d.text(at + ".description")
		case "parameters":
			open = d.openAPI(at + ".parameters")
		case "parametersJsonSchema":
			t.Schema = d.schema(at + ".parametersJsonSchema")
		case "response", "responseJsonSchema", "behavior":
			name := string(key)
			if raw := d.r.Value(); name != "behavior" || string(raw) != `"BLOCKING"` && string(raw) != `"UNSPECIFIED"` {
				t.Extras = append(t.Extras, llm.Extra{Feature: llm.FeatureToolOption, Field: at + "." + name, Raw: raw})
			}
		default:
			d.unknown(at)
		}
	}
	if t.Name == "" {
		d.refuse(at+".name", "must be the name of the function")
	}
	if t.Schema == nil {
		t.Schema = open
	}
	d.add(t)
}

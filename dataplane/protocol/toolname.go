package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxToolName is the longest name of a tool that every protocol takes, in bytes.
const MaxToolName = 64

// renamed is a tool that the upstream knows by another name than the caller.
type renamed struct{ sent, namespace, name string }

// ToolName is the name by which the upstream gets to know a tool: the caller's own if
// it has A-Z, a-z, 0-9, _ and - alone, at most MaxToolName of them, and no namespace.
// Any other is rewritten, always to the same name, and remembered, so that
// CallerTool finds the caller's again when the model calls the tool. Codecs of
// upstreams that take such names only use it for tools, choices and calls alike.
func (c *Conversion) ToolName(namespace, name string) string {
	if namespace == "" && plainToolName(name) {
		return name
	}
	for _, r := range c.renamed {
		if r.name == name && r.namespace == namespace {
			return r.sent
		}
	}
	full := name
	if namespace != "" {
		full = namespace + "__" + name
		if strings.HasSuffix(namespace, "__") { // as agents name the servers of their tools
			full = namespace + name
		}
	}
	sent := strings.Map(func(r rune) rune {
		if r < 0x80 && toolNameByte(byte(r)) {
			return r
		}
		return '_'
	}, full)
	if sent != full || len(sent) > MaxToolName {
		// Two names that differ only in what was replaced or cut must stay two.
		sum := sha256.Sum256([]byte(namespace + "\x00" + name))
		sent = sent[:min(len(sent), MaxToolName-9)] + "_" + hex.EncodeToString(sum[:4])
	}
	c.renamed = append(c.renamed, renamed{sent: sent, namespace: namespace, name: name})
	return sent
}

// RenameTool remembers that the upstream knows a tool as sent, for codecs whose names
// follow another rule than ToolName's.
func (c *Conversion) RenameTool(sent, namespace, name string) {
	for _, r := range c.renamed {
		if r.sent == sent {
			return
		}
	}
	c.renamed = append(c.renamed, renamed{sent: sent, namespace: namespace, name: name})
}

// CallerTool is what the caller calls the tool that the upstream calls sent.
func (c *Conversion) CallerTool(sent string) (namespace, name string) {
	for _, r := range c.renamed {
		if r.sent == sent {
			return r.namespace, r.name
		}
	}
	return "", sent
}

func plainToolName(s string) bool {
	for i := range len(s) {
		if !toolNameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= MaxToolName
}

func toolNameByte(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

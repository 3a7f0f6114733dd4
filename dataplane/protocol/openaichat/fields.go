package openaichat

import "github.com/aidy-gateway/aidy-gateway/dataplane/protocol"

// Fields lists the members of a Chat Completions request.
func (*Codec) Fields() []protocol.Field { return nil }

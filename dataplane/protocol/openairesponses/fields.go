package openairesponses

import "github.com/aidy-gateway/aidy-gateway/dataplane/protocol"

// Fields lists the members of a Responses request.
func (*Codec) Fields() []protocol.Field { return nil }

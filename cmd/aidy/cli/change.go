package cli

import (
	"time"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// changeFlags go with every write.
type changeFlags struct {
	Message     string        `short:"m" help:"Why; kept with the generation and in the audit." placeholder:"TEXT"`
	DryRun      bool          `help:"Check and show what would change, but change nothing." aliases:"validate-only"`
	Confirm     []string      `help:"Dangers that are accepted: DISABLE_AUTH, LARGE_CHANGE, MASS_DELETE." placeholder:"DANGER"`
	Wait        bool          `help:"Wait until every connected node runs the change."`
	WaitTimeout time.Duration `help:"Longest wait; at most 60s." default:"30s" placeholder:"TIME"`
	IfMatch     uint64        `help:"Fail unless the configuration is at this generation." placeholder:"GENERATION"`
}

func (f *changeFlags) context() (*adminv1.ChangeContext, error) {
	if f.WaitTimeout < 0 || f.WaitTimeout > time.Minute {
		return nil, usage("--wait-timeout: %s is not between 0s and 60s", f.WaitTimeout)
	}
	c := &adminv1.ChangeContext{Message: f.Message, ValidateOnly: f.DryRun, Confirm: f.Confirm, IfMatchGeneration: f.IfMatch}
	if f.Wait {
		c.Wait = &adminv1.Wait{QuorumPercent: 100, TimeoutMs: f.WaitTimeout.Milliseconds()}
	}
	return c, nil
}

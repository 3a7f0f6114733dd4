package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func TestWarningsThatSayTheSameStandOnOneLine(t *testing.T) {
	t.Parallel()
	var warnings []*adminv1.Warning
	for i := range 7 {
		warnings = append(warnings, &adminv1.Warning{Code: "STARVED_PRIORITY", Message: fmt.Sprintf("model %q: nothing bounds it", fmt.Sprint("m", i)), Kind: "UpstreamModel"})
	}
	warnings = append(warnings,
		&adminv1.Warning{Code: "SINGLE_POINT", Message: `model "m" has one candidate`},
		&adminv1.Warning{Code: "SINGLE_POINT", Message: `model "m" has one candidate`},
		&adminv1.Warning{Code: "NOT_ENFORCED", Message: "kept and not acted on", Kind: "Budget", Id: "bud_1"},
		&adminv1.Warning{Code: "NOT_ENFORCED", Message: "kept and not acted on", Kind: "Policy", Id: "pol_1"},
		&adminv1.Warning{Code: "PURGED", Message: `an odd "message`},
	)
	got := warningLines(warnings, map[string]string{"bud_1": "monthly"})
	want := []string{
		`warning STARVED_PRIORITY: model "m0", "m1", "m2", "m3", "m4" and 2 more: nothing bounds it`,
		`warning SINGLE_POINT: model "m" has one candidate`,
		"warning NOT_ENFORCED: Budget monthly, Policy pol_1: kept and not acted on",
		`warning PURGED: an odd "message`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAnErrorSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  *connect.Error
		want []string
	}{
		{
			"violations that the message repeats",
			failure(connect.CodeInvalidArgument, `Consumer "a" tenant_id: tenant_id: at least 1; Consumer "a" name: too long`, &adminv1.ErrorInfo{Violations: []*syncv1.Violation{
				{Kind: "Consumer", Name: "a", FieldPath: "tenant_id", Rule: "string.min_len", Hint: "tenant_id: at least 1"},
				{Kind: "Consumer", Name: "a", FieldPath: "name", Rule: "string.max_len", Hint: "too long"},
			}}),
			[]string{
				"invalid_argument: what is given breaks 2 rules",
				"  Consumer a: tenant_id: at least 1 (string.min_len)",
				"  Consumer a: name: too long (string.max_len)",
				"  say whose it is: -t TENANT, AIDY_TENANT, or tenant_id=TENANT; `aidy get tenants` lists them",
			},
		},
		{
			"referrers that the message names",
			failure(connect.CodeFailedPrecondition, "Upstream upr_1 is still referenced by UpstreamModel upm_1", &adminv1.ErrorInfo{
				Referrers: []string{"UpstreamModel//upm_1", "UpstreamModel//upm_2"},
			}),
			[]string{
				"failed_precondition: Upstream upr_1 is still referenced by UpstreamModel upm_1",
				"  still named by UpstreamModel//upm_2",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := explain(tc.err); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

func TestAWrongCommandLinePointsToTheHelpOfItsCommand(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"seed":                 "See `aidy seed --help`.",
		"keys list --limit=-1": "See `aidy keys list --help`.",
		"get zebra":            "See `aidy get",
		"frobnicate":           "See `aidy --help`.",
	} {
		run(t, new(fakeAdmin).transport(), "", strings.Fields(args)...).want(t, ExitUsage, nil, []string{want})
	}
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	run(t, nil, "", "--version").want(t, ExitOK, []string{"aidy ", "go1."}, nil)
}

func TestHelpShowsDefaults(t *testing.T) {
	t.Parallel()
	run(t, nil, "", "dev", "--help").want(t, ExitOK, []string{"Default: 127.0.0.1:8080.", "Default: .aidy ($AIDY_DIR)."}, nil)
}

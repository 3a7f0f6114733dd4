package configcheck

import (
	"fmt"
	"net/netip"
	"time"

	// Both planes must know the same time zones, whatever the machine has.
	_ "time/tzdata"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func (c *Checker) policyAlone(l *list, p *configv1.Policy) {
	who := subjectOf(p)
	for i, cidr := range p.GetAllowedCidrs().GetNames() {
		at := fmt.Sprintf("allowed_cidrs.names[%d]", i)
		prefix, err := netip.ParsePrefix(cidr)
		switch {
		case err != nil:
			l.add(who, at, "policy.cidr", "%s is no CIDR; write an address and a length such as 10.0.0.0/8 or 2001:db8::/32", quote(cidr))
		case prefix.Addr().Is4In6():
			l.add(who, at, "policy.cidr", "%s is an IPv4-mapped address; write it as IPv4", quote(cidr))
		case prefix != prefix.Masked():
			l.add(who, at, "policy.cidr", "%s has bits beyond its length; write %s", quote(cidr), prefix.Masked())
		}
	}
	patterns(l, who, "allowed_models", p.GetAllowedModels())
	patterns(l, who, "denied_models", p.GetDeniedModels())
	names := map[string]bool{}
	for i, lim := range p.GetLimits() {
		at := fmt.Sprintf("limits[%d]", i)
		if names[lim.GetName()] {
			l.add(who, at+".name", "unique", "another limit of the policy is called %s; counters are told apart by name", quote(lim.GetName()))
		}
		names[lim.GetName()] = true
		c.limit(l, who, at, lim)
	}
}

func (c *Checker) limit(l *list, who subject, at string, lim *configv1.Limit) {
	w := lim.GetWindow()
	concurrent := lim.GetDimension() == configv1.LimitDimension_LIMIT_DIMENSION_CONCURRENT
	kind, unit := w.GetKind(), w.GetUnit()
	none := w == nil || kind == configv1.WindowKind_WINDOW_KIND_NONE
	switch {
	case concurrent && !none:
		l.add(who, at+".window", "limit.window", "what runs at once has no window; unset it or set the kind NONE")
	case !concurrent && none:
		l.add(who, at+".window", "limit.window", "say per what time the amount counts: a RATE, CALENDAR or ROLLING window")
	case none:
		if unit != configv1.WindowUnit_WINDOW_UNIT_UNSPECIFIED {
			l.add(who, at+".window.unit", "limit.window", "the kind NONE has no unit; clear it")
		}
	case !unitGoesWith(kind, unit):
		l.add(who, at+".window.unit", "limit.window", "%s does not go with %s: RATE takes SECOND, MINUTE or HOUR; CALENDAR takes HOUR, DAY, WEEK or MONTH; ROLLING takes HOUR, DAY or DAYS_30", unit, kind)
	}
	calendar := kind == configv1.WindowKind_WINDOW_KIND_CALENDAR
	if !calendar && (w.GetTimeZone() != "" || w.GetResetHour() != 0) {
		l.add(who, at+".window.time_zone", "limit.window", "only a CALENDAR window has a time zone and a reset hour; clear them")
	}
	c.zone(l, who, at+".window.time_zone", w.GetTimeZone())
	if lim.Burst != nil && kind != configv1.WindowKind_WINDOW_KIND_RATE {
		l.add(who, at+".burst", "limit.burst", "only a RATE window has a burst; unset it")
	}
	patternsOf(l, who, at+".models", lim.GetModels())
	share, classes := int32(0), map[configv1.TrafficClass]bool{}
	for i, cl := range lim.GetClasses() {
		if classes[cl.GetClass()] {
			l.add(who, fmt.Sprintf("%s.classes[%d].class", at, i), "limit.class", "%s has a share already; keep one for each class", cl.GetClass())
		}
		classes[cl.GetClass()] = true
		share += max(0, min(100, cl.GetReservedPercent()))
	}
	if share > 100 {
		l.add(who, at+".classes", "limit.class", "the shares add up to %d %%; 100 is all there is", share)
	}
}

func unitGoesWith(k configv1.WindowKind, u configv1.WindowUnit) bool {
	switch k {
	case configv1.WindowKind_WINDOW_KIND_RATE:
		return u == configv1.WindowUnit_WINDOW_UNIT_SECOND || u == configv1.WindowUnit_WINDOW_UNIT_MINUTE || u == configv1.WindowUnit_WINDOW_UNIT_HOUR
	case configv1.WindowKind_WINDOW_KIND_CALENDAR:
		return u == configv1.WindowUnit_WINDOW_UNIT_HOUR || u == configv1.WindowUnit_WINDOW_UNIT_DAY ||
			u == configv1.WindowUnit_WINDOW_UNIT_WEEK || u == configv1.WindowUnit_WINDOW_UNIT_MONTH
	case configv1.WindowKind_WINDOW_KIND_ROLLING:
		return u == configv1.WindowUnit_WINDOW_UNIT_HOUR || u == configv1.WindowUnit_WINDOW_UNIT_DAY || u == configv1.WindowUnit_WINDOW_UNIT_DAYS_30
	}
	return true // said by the contract's own rule
}

func patternsOf(l *list, who subject, path string, names []string) {
	for i, n := range names {
		if star := indexStar(n); star >= 0 && star != len(n)-1 {
			l.add(who, fmt.Sprintf("%s[%d]", path, i), "pattern.star", "%s: a star may only stand at the end", quote(n))
		}
	}
}

// zone checks that an IANA time zone exists. Empty means UTC.
func (c *Checker) zone(l *list, who subject, path, name string) {
	if name == "" {
		return
	}
	if _, ok := c.zones.Load(name); ok {
		return
	}
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		l.add(who, path, "time_zone", "there is no time zone %s; use an IANA name such as Europe/Berlin", quote(name))
		return
	}
	c.zones.Store(name, true)
}

package admin

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// maxMask bounds the fields that one update names.
const maxMask = 256

// applyMask sets in dst the fields that paths name to what they are in src:
// named and empty is cleared, not named is unchanged. Paths go through nested
// messages; lists and maps are replaced whole.
func applyMask(r *resource, dst, src proto.Message, paths []string) error {
	bad := &invalidError{}
	add := func(path, rule, hint string) {
		bad.violations = append(bad.violations, &syncv1.Violation{Kind: r.name, Name: text(dst, "name"), FieldPath: path, Rule: rule, Hint: hint})
	}
	if len(paths) == 0 {
		add("update_mask", "required", "name the fields to change; a field that is not named stays as it is")
	}
	if len(paths) > maxMask {
		add("update_mask", "max_items", "name at most 256 fields")
		return bad
	}
	for _, path := range paths {
		top, _, _ := strings.Cut(path, ".")
		if slices.Contains(r.fixed(), top) {
			add(path, "immutable", "cannot be changed; take it out of update_mask")
			continue
		}
		if hint := setPath(dst.ProtoReflect(), src.ProtoReflect(), strings.Split(path, ".")); hint != "" {
			add(path, "update_mask", hint)
		}
	}
	if len(bad.violations) > 0 {
		return bad
	}
	return nil
}

// fixed are the fields that no update names.
func (r *resource) fixed() []string {
	fixed := append([]string{"id", "tenant_id", "etag", "create_time", "update_time"}, r.rules.immutable...)
	fixed = append(fixed, r.rules.derived...)
	if r.Parent != "" {
		fixed = append(fixed, r.Parent)
	}
	return fixed
}

// setPath copies one field and returns what is wrong with its path, if anything.
func setPath(dst, src protoreflect.Message, path []string) string {
	fd := dst.Descriptor().Fields().ByTextName(path[0])
	if fd == nil {
		return "is no field of " + string(dst.Descriptor().Name()) + "; see the API reference for its fields"
	}
	if len(path) == 1 {
		if src.Has(fd) {
			dst.Set(fd, src.Get(fd))
		} else {
			dst.Clear(fd)
		}
		return ""
	}
	if fd.IsList() || fd.IsMap() || fd.Message() == nil {
		return "goes into a field that can only be replaced whole; name " + string(fd.Name()) + " alone"
	}
	if !src.Has(fd) && !dst.Has(fd) {
		return pathExists(fd.Message(), path[1:])
	}
	return setPath(dst.Mutable(fd).Message(), src.Get(fd).Message(), path[1:])
}

// pathExists tells a path to nothing from a path that is wrong.
func pathExists(desc protoreflect.MessageDescriptor, path []string) string {
	fd := desc.Fields().ByTextName(path[0])
	switch {
	case fd == nil:
		return "is no field of " + string(desc.Name()) + "; see the API reference for its fields"
	case len(path) == 1:
		return ""
	case fd.IsList() || fd.IsMap() || fd.Message() == nil:
		return "goes into a field that can only be replaced whole; name " + string(fd.Name()) + " alone"
	}
	return pathExists(fd.Message(), path[1:])
}

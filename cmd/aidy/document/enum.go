package document

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// enumPrefix is what the names of an enum's values begin with. buf's rules make the
// value 0 end in UNSPECIFIED, so the prefix is what stands before that.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	if zero := d.Values().ByNumber(0); zero != nil {
		return strings.TrimSuffix(string(zero.Name()), "UNSPECIFIED")
	}
	return ""
}

// EnumName returns how people write a value: in lower case, without the prefix. A
// value that the program does not know is written as its number by the caller.
func EnumName(v protoreflect.EnumValueDescriptor) string {
	d := v.Parent().(protoreflect.EnumDescriptor)
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), enumPrefix(d)))
}

// EnumNames returns how people write the values of an enum, without the unspecified
// one, in the order of their declaration.
func EnumNames(d protoreflect.EnumDescriptor) []string {
	var names []string
	for i := range d.Values().Len() {
		if v := d.Values().Get(i); v.Number() != 0 {
			names = append(names, EnumName(v))
		}
	}
	return names
}

// enumValue finds a value by either of its names, in any case, with - or _.
func enumValue(d protoreflect.EnumDescriptor, text string) protoreflect.EnumValueDescriptor {
	name := strings.ToUpper(strings.ReplaceAll(text, "-", "_"))
	if v := d.Values().ByName(protoreflect.Name(name)); v != nil {
		return v
	}
	return d.Values().ByName(protoreflect.Name(enumPrefix(d) + name))
}

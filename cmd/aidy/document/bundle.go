package document

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// MaxResources is how many resources a bundle may hold.
const MaxResources = 2000

// Bundle reads a file of one or more documents, each a bundle, as one. The owner may
// stand in any of them, but not two different ones.
func Bundle(file string, data []byte) (*adminv1.Bundle, error) {
	docs, err := Decode(file, data, func() proto.Message { return new(adminv1.Bundle) })
	if err != nil {
		return nil, err
	}
	out := new(adminv1.Bundle)
	for _, d := range docs {
		b := d.(*adminv1.Bundle)
		if b.GetOwner() != "" {
			if out.GetOwner() != "" && out.GetOwner() != b.GetOwner() {
				return nil, &Problem{File: file, Path: "owner", Text: fmt.Sprintf("two documents name different owners, %s and %s", out.GetOwner(), b.GetOwner())}
			}
			out.Owner = b.GetOwner()
		}
		out.Resources = append(out.Resources, b.GetResources()...)
	}
	if n := len(out.GetResources()); n > MaxResources {
		return nil, &Problem{File: file, Text: fmt.Sprintf("%d resources, at most %d fit in one bundle; split the file", n, MaxResources)}
	}
	for i, r := range out.GetResources() {
		if r.GetResource() == nil {
			return nil, &Problem{File: file, Path: fmt.Sprintf("resources[%d]", i), Text: "says no kind; expected one resource, such as provider: {…}"}
		}
	}
	return out, nil
}

// BundleFrom reads a bundle from r, which is bounded by MaxBytes.
func BundleFrom(file string, r io.Reader) (*adminv1.Bundle, error) {
	data, err := ReadAll(file, r)
	if err != nil {
		return nil, err
	}
	return Bundle(file, data)
}

// ReadAll reads what Decode takes, and one byte more at the most.
func ReadAll(file string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return data, nil
}

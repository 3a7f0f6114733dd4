package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// column carries one field of a message to and from one column of its table.
type column struct {
	name    string
	sqlType string
	null    bool
	// encode returns the value to write.
	encode func(protoreflect.Message) (any, error)
	// dest returns where a scan puts the value, and what then sets the field.
	dest func() (target any, set func(protoreflect.Message) error)
}

// Fields that the store itself keeps: they have columns of their own.
const (
	fieldEtag   = "etag"
	fieldLabels = "labels"
	fieldCreate = "create_time"
	fieldUpdate = "update_time"
)

// columnsOf maps a message to columns: a column per scalar, enum, timestamp and
// list of them, named as the field. Nested messages and lists of messages are
// one bytea column each, holding a message of the resource's own type in which
// only that field is set; plugin payloads are jsonb. Secret fields have none.
func columnsOf(k *kind) ([]column, error) {
	var columns []column
	fields := k.desc.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := string(fd.Name())
		if name == fieldEtag || name == fieldCreate || name == fieldUpdate || slices.Contains(k.Secrets, name) {
			continue
		}
		c, err := columnOf(k, fd)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", k.name, name, err)
		}
		c.name = name
		columns = append(columns, c)
	}
	return columns, nil
}

func columnOf(k *kind, fd protoreflect.FieldDescriptor) (column, error) {
	switch {
	case fd.IsMap():
		if fd.Name() != fieldLabels {
			return column{}, fmt.Errorf("a map other than labels has no column form")
		}
		return labelsColumn(fd), nil
	case fd.Message() != nil && !fd.IsList() && fd.Message().FullName() == "google.protobuf.Timestamp":
		return timestampColumn(fd), nil
	case fd.Message() != nil && !fd.IsList() && fd.Message().FullName() == "google.protobuf.Struct":
		return structColumn(fd), nil
	case fd.Message() != nil:
		return fragmentColumn(fd), nil
	case fd.IsList():
		return listColumn(fd)
	}
	isRef := slices.ContainsFunc(k.refs, func(r reference) bool { return r.column && r.Path == string(fd.Name()) })
	switch fd.Kind() {
	case protoreflect.StringKind:
		if isRef {
			return scalar(fd, "text", true, func(v protoreflect.Value) any { return v.String() }, func(v string) protoreflect.Value { return protoreflect.ValueOfString(v) }), nil
		}
		return scalar(fd, "text", fd.HasPresence(), func(v protoreflect.Value) any { return v.String() }, func(v string) protoreflect.Value { return protoreflect.ValueOfString(v) }), nil
	case protoreflect.BoolKind:
		return scalar(fd, "boolean", fd.HasPresence(), func(v protoreflect.Value) any { return v.Bool() }, protoreflect.ValueOfBool), nil
	case protoreflect.Int32Kind:
		return scalar(fd, "integer", fd.HasPresence(), func(v protoreflect.Value) any { return int32(v.Int()) }, protoreflect.ValueOfInt32), nil
	case protoreflect.Int64Kind:
		return scalar(fd, "bigint", fd.HasPresence(), func(v protoreflect.Value) any { return v.Int() }, protoreflect.ValueOfInt64), nil
	case protoreflect.DoubleKind:
		return scalar(fd, "double precision", fd.HasPresence(), func(v protoreflect.Value) any { return v.Float() }, protoreflect.ValueOfFloat64), nil
	case protoreflect.EnumKind:
		return scalar(fd, "smallint", fd.HasPresence(), func(v protoreflect.Value) any { return int32(v.Enum()) },
			func(v int32) protoreflect.Value { return protoreflect.ValueOfEnum(protoreflect.EnumNumber(v)) }), nil
	default:
		return column{}, fmt.Errorf("kind %v has no column form", fd.Kind())
	}
}

func scalar[T any](fd protoreflect.FieldDescriptor, sqlType string, null bool, out func(protoreflect.Value) any, in func(T) protoreflect.Value) column {
	return column{
		sqlType: sqlType, null: null,
		encode: func(m protoreflect.Message) (any, error) {
			if null && !m.Has(fd) {
				return nil, nil
			}
			return out(m.Get(fd)), nil
		},
		dest: func() (any, func(protoreflect.Message) error) {
			var v *T
			return &v, func(m protoreflect.Message) error {
				if v == nil {
					return nil
				}
				value := in(*v)
				if !fd.HasPresence() && !value.Equal(fd.Default()) || fd.HasPresence() {
					m.Set(fd, value)
				}
				return nil
			}
		},
	}
}

func listColumn(fd protoreflect.FieldDescriptor) (column, error) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return list(fd, "text[]", func(v protoreflect.Value) string { return v.String() }, protoreflect.ValueOfString), nil
	case protoreflect.Int32Kind:
		return list(fd, "integer[]", func(v protoreflect.Value) int32 { return int32(v.Int()) }, protoreflect.ValueOfInt32), nil
	case protoreflect.Int64Kind:
		return list(fd, "bigint[]", func(v protoreflect.Value) int64 { return v.Int() }, protoreflect.ValueOfInt64), nil
	case protoreflect.EnumKind:
		return list(fd, "smallint[]", func(v protoreflect.Value) int16 { return int16(v.Enum()) },
			func(v int16) protoreflect.Value { return protoreflect.ValueOfEnum(protoreflect.EnumNumber(v)) }), nil
	default:
		return column{}, fmt.Errorf("a list of %v has no column form", fd.Kind())
	}
}

func list[T any](fd protoreflect.FieldDescriptor, sqlType string, out func(protoreflect.Value) T, in func(T) protoreflect.Value) column {
	return column{
		sqlType: sqlType,
		encode: func(m protoreflect.Message) (any, error) {
			values := m.Get(fd).List()
			array := make([]T, values.Len())
			for i := range array {
				array[i] = out(values.Get(i))
			}
			return array, nil
		},
		dest: func() (any, func(protoreflect.Message) error) {
			var array []T
			return &array, func(m protoreflect.Message) error {
				if len(array) == 0 {
					return nil
				}
				values := m.Mutable(fd).List()
				for _, v := range array {
					values.Append(in(v))
				}
				return nil
			}
		},
	}
}

func labelsColumn(fd protoreflect.FieldDescriptor) column {
	return column{
		sqlType: "text[]",
		encode: func(m protoreflect.Message) (any, error) {
			pairs := make([]string, 0, m.Get(fd).Map().Len())
			m.Get(fd).Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
				pairs = append(pairs, key.String()+"="+v.String())
				return true
			})
			slices.Sort(pairs)
			return pairs, nil
		},
		dest: func() (any, func(protoreflect.Message) error) {
			var pairs []string
			return &pairs, func(m protoreflect.Message) error {
				for _, pair := range pairs {
					key, value, _ := strings.Cut(pair, "=")
					m.Mutable(fd).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(value))
				}
				return nil
			}
		},
	}
}

func timestampColumn(fd protoreflect.FieldDescriptor) column {
	return column{
		sqlType: "timestamptz", null: true,
		encode: func(m protoreflect.Message) (any, error) {
			if !m.Has(fd) {
				return nil, nil
			}
			ts, ok := m.Get(fd).Message().Interface().(*timestamppb.Timestamp)
			if !ok || !ts.IsValid() {
				return nil, &InvalidError{Field: string(fd.Name()), Reason: "not a time between the years 1 and 9999"}
			}
			return ts.AsTime(), nil
		},
		dest: func() (any, func(protoreflect.Message) error) {
			var v pgtype.Timestamptz
			return &v, func(m protoreflect.Message) error {
				if v.Valid {
					m.Set(fd, protoreflect.ValueOfMessage(timestamppb.New(v.Time).ProtoReflect()))
				}
				return nil
			}
		},
	}
}

func structColumn(fd protoreflect.FieldDescriptor) column {
	return column{
		sqlType: "jsonb", null: true,
		encode: func(m protoreflect.Message) (any, error) {
			if !m.Has(fd) {
				return nil, nil
			}
			text, err := protojson.Marshal(m.Get(fd).Message().Interface())
			if err != nil {
				return nil, &InvalidError{Field: string(fd.Name()), Reason: err.Error()}
			}
			return text, nil
		},
		dest: func() (any, func(protoreflect.Message) error) {
			var text []byte
			return &text, func(m protoreflect.Message) error {
				if text == nil {
					return nil
				}
				payload := &structpb.Struct{}
				if err := protojson.Unmarshal(text, payload); err != nil {
					return err
				}
				m.Set(fd, protoreflect.ValueOfMessage(payload.ProtoReflect()))
				return nil
			}
		},
	}
}

// fragmentColumn stores a nested message, or a list of them, as a message of the
// parent's type that has nothing else: decoding is merging.
func fragmentColumn(fd protoreflect.FieldDescriptor) column {
	return column{
		sqlType: "bytea", null: true,
		encode: func(m protoreflect.Message) (any, error) {
			if !m.Has(fd) {
				return nil, nil
			}
			fragment := m.New()
			fragment.Set(fd, m.Get(fd))
			return Marshal(fragment.Interface())
		},
		dest: func() (any, func(protoreflect.Message) error) {
			var raw []byte
			return &raw, func(m protoreflect.Message) error {
				if raw == nil {
					return nil
				}
				return proto.UnmarshalOptions{Merge: true}.Unmarshal(raw, m.Interface())
			}
		},
	}
}

// Marshal encodes a message so that equal messages give equal bytes within one
// build of the program.
func Marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// normalise cuts timestamps to the microseconds that PostgreSQL keeps, so that
// what a writer gets back equals what a reader will see.
func normalise(m proto.Message) {
	r := m.ProtoReflect()
	r.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() == nil || fd.IsList() || fd.IsMap() {
			return true
		}
		if ts, ok := v.Message().Interface().(*timestamppb.Timestamp); ok && ts.IsValid() {
			ts.Nanos -= ts.Nanos % int32(time.Microsecond)
		}
		return true
	})
}

func etagOf(revision int64) string { return strconv.FormatInt(revision, 10) }

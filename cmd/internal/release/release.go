// Package release says which release of the product a program is.
package release

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// number is set by the linker: -X github.com/aidy-gateway/aidy-gateway/cmd/internal/release.number=v1.2.3.
var number string

// Version returns the release: what the linker was told, else the version of the
// module, else "devel" with the beginning of the commit where it is known.
func Version() string {
	if number != "" {
		return number
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// Line is what --version of a program prints: its name, the release, the Go release
// and the platform.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s %s/%s)", program, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Command importorder checks that packages import only what stands above them: the
// reading order of the project. It prints every import that breaks the order and
// exits with 1 if there is one.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/aidy-gateway/aidy-gateway"

// order lists the packages of each plane from top to bottom. A package imports only
// packages that stand before it; the root of a plane stands last. What is below a
// listed package belongs to it.
var order = map[string][]string{
	"dataplane": {
		"llm", "sse", "fault", "rendezvous", "protocol", "snapshot", "inbound", "route", "auth", "policy", "quota", "guard", "resolve",
		"rewrite", "respcache", "plan", "affinity", "schedule", "upstream", "relay", "attempt", "shadow", "decision", "meter", "requestlog", "",
	},
	"controlplane": {
		"localpg", "store", "access", "ledger", "requestlog", "compile", "admin", "distribute", "probe", "console", "",
	},
}

// pure packages know neither plane.
var pure = []string{"shared", "proto", "migrations"}

func main() {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "importorder: list packages:", err)
		os.Exit(2)
	}
	wrong := 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		from, imports, _ := strings.Cut(lines.Text(), " ")
		for to := range strings.FieldsSeq(imports) {
			if why := forbidden(from, to); why != "" {
				fmt.Printf("%s imports %s: %s\n", from, to, why)
				wrong++
			}
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

func forbidden(from, to string) string {
	plane, pkg, ok := place(from)
	if !ok {
		return ""
	}
	if plane == "dataplane" && strings.HasPrefix(to, "github.com/jackc/") {
		return "the data plane links no database driver"
	}
	toPlane, toPkg, ok := place(to)
	if !ok {
		return ""
	}
	if slices.Contains(pure, plane) && order[toPlane] != nil {
		return plane + " knows neither plane"
	}
	if order[plane] == nil || toPlane == "cmd" {
		if toPlane == "cmd" && plane != "cmd" {
			return "nothing imports cmd"
		}
		return ""
	}
	if toPlane != plane {
		if order[toPlane] != nil {
			return "the planes do not import each other"
		}
		return ""
	}
	above, below := slices.Index(order[plane], toPkg), slices.Index(order[plane], pkg)
	switch {
	case below < 0:
		return pkg + " is not in the order; add it to .ci/importorder where it belongs"
	case above < 0:
		return toPkg + " is not in the order; add it to .ci/importorder where it belongs"
	case above > below:
		return "it stands below"
	}
	return ""
}

// place splits an import path of the module into plane and package.
func place(path string) (plane, pkg string, ok bool) {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return "", "", false
	}
	plane, rest, _ = strings.Cut(rest, "/")
	pkg, _, _ = strings.Cut(rest, "/")
	return plane, pkg, true
}

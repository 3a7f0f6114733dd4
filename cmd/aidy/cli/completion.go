package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

func (completionCommand) Help() string {
	return `Examples:

    source <(aidy completion bash)
    aidy completion bash > /etc/bash_completion.d/aidy
    aidy completion zsh > "${fpath[1]}/_aidy"
    aidy completion fish > ~/.config/fish/completions/aidy.fish`
}

func (c *completionCommand) Run(a *app) error {
	// Every command may name its form of output; a script in a table makes no sense,
	// and in JSON neither.
	tree := completionsOf(a.parser.Model.Node, resource.Words(a.kinds))
	script := map[string]func([]completions) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(a.Stdout, script(tree))
	return err
}

// completions are the words that can follow a command.
type completions struct {
	path     string // "keys create"; empty for the program itself
	commands []string
	flags    []string
	values   []string // of the first argument
}

// completionsOf lists a command and those below it, the program first.
func completionsOf(n *kong.Node, kinds []string) []completions {
	path := strings.TrimSpace(strings.TrimPrefix(n.FullPath(), "aidy"))
	c := completions{path: commandPath(path)}
	for _, flags := range n.AllFlags(true) {
		for _, f := range flags {
			c.flags = append(c.flags, "--"+f.Name)
		}
	}
	slices.Sort(c.flags)
	c.flags = slices.Compact(c.flags)
	if len(n.Positional) > 0 {
		p := n.Positional[0]
		switch {
		case p.Tag != nil && p.Tag.Get("predictor") == "kind":
			c.values = kinds
		case p.Enum != "":
			c.values = strings.Split(p.Enum, ",")
		}
	}
	out := []completions{c}
	for _, child := range n.Children {
		if child.Hidden || child.Type != kong.CommandNode {
			continue
		}
		out[0].commands = append(out[0].commands, child.Name)
		out = append(out, completionsOf(child, kinds)...)
	}
	return out
}

// commandPath keeps the words of a path that are commands: arguments stand in <>.
func commandPath(path string) string {
	var words []string
	for w := range strings.FieldsSeq(path) {
		if !strings.HasPrefix(w, "<") && !strings.HasPrefix(w, "[") {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// candidates are all words that can follow, flags last.
func (c completions) candidates() string {
	return strings.Join(slices.Concat(c.commands, c.values), " ")
}

// walk writes the arms of a shell's case over "path|word", which find the path of
// the command that is being typed. The variable is not called path: in zsh that is
// where programs are looked for.
func walk(tree []completions, indent string) string {
	var b strings.Builder
	for _, c := range tree {
		for _, child := range c.commands {
			full := strings.TrimSpace(c.path + " " + child)
			fmt.Fprintf(&b, "%s\"%s\") sofar=\"%s\" ;;\n", indent, c.path+"|"+child, full)
		}
	}
	return b.String()
}

func arms(tree []completions, indent string) string {
	var b strings.Builder
	for _, c := range tree {
		fmt.Fprintf(&b, "%s\"%s\") words=\"%s\"; flags=\"%s\" ;;\n", indent, c.path, c.candidates(), strings.Join(c.flags, " "))
	}
	return b.String()
}

func bashScript(tree []completions) string {
	return `# bash completion of aidy
_aidy() {
  local cur="${COMP_WORDS[COMP_CWORD]}" sofar="" words="" flags="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$sofar|${COMP_WORDS[i]}" in
` + walk(tree, "      ") + `    esac
  done
  case "$sofar" in
` + arms(tree, "    ") + `  esac
  case "$cur" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
  esac
  if [[ ${#COMPREPLY[@]} -eq 0 && "$cur" != -* ]]; then
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -F _aidy aidy
`
}

func zshScript(tree []completions) string {
	return `#compdef aidy
# zsh completion of aidy
_aidy() {
  local cur="${words[CURRENT]}" sofar="" candidates="" flags="" i
  for ((i = 2; i < CURRENT; i++)); do
    case "$sofar|${words[i]}" in
` + walk(tree, "      ") + `    esac
  done
  case "$sofar" in
` + strings.ReplaceAll(arms(tree, "    "), "words=", "candidates=") + `  esac
  if [[ "$cur" == -* ]]; then
    compadd -- ${=flags}
  elif [[ -n "$candidates" ]]; then
    compadd -- ${=candidates}
  else
    _files
  fi
}
if [[ "${funcstack[1]}" == "_aidy" ]]; then
  _aidy "$@"
else
  compdef _aidy aidy
fi
`
}

func fishScript(tree []completions) string {
	var b strings.Builder
	b.WriteString(`# fish completion of aidy
function __aidy_candidates
  set -l path ""
  set -l words (commandline -opc)
  for word in $words[2..-1]
    switch "$path|$word"
`)
	for _, c := range tree {
		for _, child := range c.commands {
			fmt.Fprintf(&b, "      case \"%s|%s\"\n        set path \"%s\"\n", c.path, child, strings.TrimSpace(c.path+" "+child))
		}
	}
	b.WriteString(`    end
  end
  switch "$path"
`)
	for _, c := range tree {
		words := strings.TrimSpace(c.candidates() + " " + strings.Join(c.flags, " "))
		fmt.Fprintf(&b, "    case \"%s\"\n      string split \" \" -- \"%s\"\n", c.path, words)
	}
	b.WriteString(`  end
end
complete -c aidy -a "(__aidy_candidates)"
`)
	return b.String()
}

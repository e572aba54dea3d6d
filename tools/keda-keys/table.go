package main

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// version is a minor version of KEDA with its trigger types.
type version struct {
	number   string
	triggers []trigger
}

var (
	directory = regexp.MustCompile(`@v(\d+\.\d+)\.\d+/?$`)
	removedIn = regexp.MustCompile(`removed in v(\d+\.\d+)`)
)

// numberOf gives the minor version that the name of a module's directory ends in.
func numberOf(module string) (string, error) {
	found := directory.FindStringSubmatch(module)
	if found == nil {
		return "", fmt.Errorf("%s: the name does not end in a version", module)
	}
	return found[1], nil
}

const head = `# The keys of every trigger type of KEDA %s to %s, written by tools/keda-keys from KEDA's source.
# constraints.txt has what the source does not say in tags: corrections, and constraints between keys.
#
# [TYPE]            a trigger type
# KEY NEED TYPE FROM OPTION...
#   NEED   ! always needed, - not, or only by a constraint
#   TYPE   string int uint float bool duration list ints map params
#   FROM   where it is read, first source first: m metadata, e KEYFromEnv in metadata, a a TriggerAuthentication. A key
#          without m that is written in metadata is not read
#   aka=   another spelling           default=  never missing        values=  the only ones, a list's items
#   one=   at most one of these       sep=      of a list or map     ranges   items may be 1-4
#   gone=VERSION    refused in metadata since that version
#   since=VERSION until=VERSION    the first and the last version for which a line holds; all supported ones without them
`

// printTable writes the keys of all versions, with the versions that a line holds for.
func printTable(out *bufio.Writer, versions []version) error {
	first, last := versions[0].number, versions[len(versions)-1].number
	fmt.Fprintf(out, head, first, last)
	var names []string
	for _, v := range versions {
		for _, t := range v.triggers {
			if !slices.Contains(names, t.name) {
				names = append(names, t.name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := printTrigger(out, name, versions); err != nil {
			return err
		}
	}
	return nil
}

// printTrigger writes one trigger type. Versions that still parse its metadata by hand are taken to read what the first version
// reads that has tags: what hand-written code reads is not wholly known.
func printTrigger(out *bufio.Writer, name string, versions []version) error {
	have := make([]bool, len(versions))
	tagged := make([]bool, len(versions))
	lines := make([]map[string]string, len(versions))
	var keys []string
	for i, v := range versions {
		at := slices.IndexFunc(v.triggers, func(t trigger) bool { return t.name == name })
		if at < 0 {
			continue
		}
		t := v.triggers[at]
		have[i], tagged[i], lines[i] = true, isTagged(t.keys), map[string]string{}
		for _, k := range merged(t.keys) {
			line, err := lineOf(k)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			lines[i][k.name] = line
		}
	}
	last := len(have) - 1 - slices.Index(reversed(have), true)
	start := slices.Index(tagged, true)
	if start < 0 {
		start = last
	}
	for i := start; i <= last; i++ {
		for key := range lines[i] {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	fmt.Fprintf(out, "\n[%s]%s\n", name, span(versions, slices.Index(have, true) > 0, slices.Index(have, true), last, len(have)-1))
	for _, key := range keys {
		for i := start; i <= last; {
			end := i
			for end < last && lines[end+1][key] == lines[i][key] {
				end++
			}
			if line := lines[i][key]; line != "" {
				fmt.Fprintf(out, "%s%s\n", line, span(versions, i > start, i, end, last))
			}
			i = end + 1
		}
	}
	return nil
}

// span says for which versions a line holds.
func span(versions []version, later bool, from, to, last int) string {
	text := ""
	if later {
		text += " since=" + versions[from].number
	}
	if to < last {
		text += " until=" + versions[to].number
	}
	return text
}

func reversed(list []bool) []bool {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// isTagged says whether all keys of a trigger type are known: its metadata is a struct with tags, and no helper of old versions
// reads further ones.
func isTagged(keys []key) bool {
	tagged := false
	for _, k := range keys {
		if k.need == "?" {
			return false
		}
		tagged = tagged || !strings.HasPrefix(k.origin, "code")
	}
	return tagged
}

// merged joins the fields that have one name: either may give the value, so it is required only if both are.
func merged(keys []key) []key {
	var out []key
	for _, k := range keys {
		at := slices.IndexFunc(out, func(other key) bool { return other.name == k.name })
		if at < 0 {
			out = append(out, k)
			continue
		}
		other := out[at]
		if other.kind == "string" && k.kind != "string" {
			other, k = k, other
		}
		if k.need != "required" {
			other.need = k.need
		}
		other.deprecated = max(other.deprecated, k.deprecated)
		for _, from := range strings.Split(k.from, ";") {
			other.from = union(other.from, from)
		}
		out[at] = other
	}
	return out
}

var kinds = map[string]string{
	"string": "string", "int": "int", "int64": "int", "int32": "int", "uint": "uint", "uint32": "uint", "float64": "float", "bool": "bool",
	"time.Duration": "duration", "[]string": "list", "[]int": "ints", "[]int32": "ints", "map": "map", "url.Values": "params",
	"azquery.AggregationType": "string",
}

// lineOf writes a key as a line of the table.
func lineOf(k key) (string, error) {
	kind := kinds[k.kind]
	if kind == "" {
		return "", fmt.Errorf("%s: a value of type %s", k.name, k.kind)
	}
	need := "-"
	if k.need == "required" {
		need = "!"
	}
	words := []string{k.name, need, kind, sources(k)}
	if len(k.aliases) > 0 {
		words = append(words, "aka="+strings.Join(k.aliases, "|"))
	}
	option := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	option("default", k.def)
	option("values", strings.ReplaceAll(k.values, ";", "|"))
	option("one", strings.ReplaceAll(k.exclusive, ";", "|"))
	if k.separator != "" {
		words = append(words, "sep="+k.separator)
	}
	if k.ranges != "" {
		words = append(words, "ranges")
	}
	if k.deprecated != "" {
		found := removedIn.FindStringSubmatch(k.deprecated)
		if found == nil {
			return "", fmt.Errorf("%s: refused, but the text does not say since when: %s", k.name, k.deprecated)
		}
		words = append(words, "gone="+found[1])
	}
	return strings.Join(words, " "), nil
}

// sources gives one letter for each source of a key, in KEDA's order.
func sources(k key) string {
	out := ""
	for _, from := range strings.Split(k.from+";"+k.readToo, ";") {
		letter := map[string]string{"triggerMetadata": "m", "resolvedEnv": "e", "authParams": "a", "?": "mea"}[from]
		if !strings.Contains(out, letter) {
			out += letter
		}
	}
	return out
}

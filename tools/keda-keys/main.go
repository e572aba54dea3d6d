// Command keda-keys writes the table of KEDA's trigger types from KEDA's own source.
//
// It needs no network and no build of KEDA: it parses the Go files of KEDA modules, starts at each `case` of
// pkg/scaling/scalers_builder.go, follows the calls of its constructor, and takes each field with a `keda` tag of each
// struct that is handed to TypedConfig on the way, and each key that the code on the way reads by hand.
//
//	keda-keys MODULE-DIRECTORY...       the table of all versions, oldest first
//	keda-keys -list MODULE-DIRECTORY    each key of one version with all that the source says of it
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// key is what a trigger type reads under one name.
type key struct {
	trigger, name, need, kind, from, def, values, exclusive, separator, ranges, deprecated, announced, readToo, origin string
	aliases                                                                                                            []string
}

// trigger is a trigger type of one version.
type trigger struct {
	name string
	keys []key
}

func main() {
	arguments := os.Args[1:]
	list := len(arguments) == 2 && arguments[0] == "-list"
	if list {
		arguments = arguments[1:]
	}
	if len(arguments) == 0 {
		fmt.Fprintln(os.Stderr, "usage: keda-keys [-list] MODULE-DIRECTORY...")
		os.Exit(2)
	}
	if err := run(arguments, list); err != nil {
		fmt.Fprintln(os.Stderr, "keda-keys:", err)
		os.Exit(1)
	}
}

func run(modules []string, list bool) error {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	var versions []version
	for _, module := range modules {
		triggers, err := triggersOf(module)
		if err != nil {
			return err
		}
		if list {
			printList(out, triggers)
			return nil
		}
		number, err := numberOf(module)
		if err != nil {
			return err
		}
		versions = append(versions, version{number, triggers})
	}
	return printTable(out, versions)
}

// triggersOf reads the trigger types of a module, sorted by name.
func triggersOf(module string) ([]trigger, error) {
	s := newSource(module)
	builder, err := s.load("pkg/scaling")
	if err != nil {
		return nil, err
	}
	start := builder.funcs["buildScaler"]
	if start == nil {
		return nil, fmt.Errorf("%s: no function buildScaler in pkg/scaling", module)
	}
	var out []trigger
	for _, c := range s.cases(start) {
		keys, err := s.keysOf(c.trigger, start, c.body)
		if err != nil {
			return nil, err
		}
		out = append(out, trigger{c.trigger, keys})
	}
	return out, nil
}

func printList(out *bufio.Writer, triggers []trigger) {
	fmt.Fprintln(out, "# type\tkey\taliases\tneed\tvalue\tsources in order\tdefault\tenum\texclusive\tseparator\trange\tdeprecated\tannounced\tcode reads it from\torigin")
	for _, t := range triggers {
		for _, k := range t.keys {
			cells := []string{t.name, k.name, strings.Join(k.aliases, ";"), k.need, k.kind, k.from, k.def, k.values, k.exclusive,
				k.separator, k.ranges, k.deprecated, k.announced, k.readToo, k.origin}
			for i, cell := range cells {
				if cell == "" {
					cells[i] = "-"
				}
			}
			fmt.Fprintln(out, strings.Join(cells, "\t"))
		}
	}
}

package main

import (
	"fmt"
	"go/ast"
	"sort"
	"strings"
)

// keysOf follows the calls from a case of the builder.
func (s *source) keysOf(trigger string, start *function, body []ast.Stmt) ([]key, error) {
	w := &walk{source: s, trigger: trigger, seen: map[*ast.FuncDecl]bool{}, keys: map[string]*key{}, structs: map[*ast.TypeSpec]bool{}}
	for _, stmt := range body {
		w.visit(start, stmt)
	}
	for len(w.queue) > 0 && w.err == nil {
		f := w.queue[0]
		w.queue = w.queue[1:]
		w.visit(f, f.decl.Body)
	}
	var out []key
	for _, k := range w.keys {
		out = append(out, *k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name+"\x00"+out[i].from < out[j].name+"\x00"+out[j].from })
	return out, w.err
}

type walk struct {
	*source
	trigger string
	seen    map[*ast.FuncDecl]bool
	queue   []*function
	keys    map[string]*key
	structs map[*ast.TypeSpec]bool
	err     error
}

func (w *walk) enqueue(f *function) {
	if f == nil || f.decl.Body == nil || w.seen[f.decl] {
		return
	}
	w.seen[f.decl] = true
	w.queue = append(w.queue, f)
}

// visit looks at the calls, the TypedConfig structs and the keys read by hand in a piece of a function.
func (w *walk) visit(f *function, body ast.Node) {
	assigned := map[ast.Expr]bool{} // keys that the code writes
	ast.Inspect(body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for _, l := range a.Lhs {
				assigned[l] = true
			}
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			w.call(f, n)
		case *ast.RangeStmt:
			w.prefix(f, n)
		case *ast.IndexExpr:
			if !assigned[n] {
				w.index(f, n)
			}
		}
		return true
	})
}

func (w *walk) call(f *function, call *ast.CallExpr) {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		w.enqueue(f.pkg.funcs[fun.Name])
		w.parameter(f, fun.Name, call)
		w.passed(f, f.pkg.funcs[fun.Name], call)
	case *ast.SelectorExpr:
		if fun.Sel.Name == "TypedConfig" && len(call.Args) == 1 {
			t, ok := w.typeOf(f, call.Args[0])
			if !ok {
				w.err = fmt.Errorf("%s: the type of the argument of TypedConfig is not found", w.set.Position(call.Pos()))
				return
			}
			w.structure(t, false)
			return
		}
		if x, ok := fun.X.(*ast.Ident); ok {
			if dir := f.imports[x.Name]; dir != "" && strings.HasPrefix(dir, "pkg/scalers") {
				p, err := w.load(dir)
				if err != nil {
					w.err = err
					return
				}
				if p.funcs[fun.Sel.Name] != nil {
					w.enqueue(p.funcs[fun.Sel.Name])
					w.parameter(f, fun.Sel.Name, call)
					w.passed(f, p.funcs[fun.Sel.Name], call)
					return
				}
			}
		}
		for _, m := range f.pkg.methods[fun.Sel.Name] { // a method of the same file
			if m.file == f.file {
				w.enqueue(m)
			}
		}
	}
}

// parameter reads calls of the helpers of older versions: getParameterFromConfig(config, "key", checkAuthParams).
func (w *walk) parameter(f *function, name string, call *ast.CallExpr) {
	lower := strings.ToLower(name)
	if !strings.HasPrefix(lower, "getparameterfromconfig") && !strings.HasPrefix(lower, "getfromauthormeta") {
		return
	}
	for _, a := range call.Args {
		text, ok := w.text(f, a)
		if !ok {
			continue
		}
		from := "?"
		if strings.HasPrefix(lower, "getfromauthormeta") {
			from = "authParams;triggerMetadata"
		}
		w.add(key{name: text, need: "?", kind: "string", from: from, origin: "code " + f.file})
		return
	}
}

// text is a string constant.
func (w *walk) text(f *function, e ast.Expr) (string, bool) {
	if text, ok := literal(e); ok {
		return text, true
	}
	switch e := e.(type) {
	case *ast.Ident:
		text, ok := f.pkg.consts[e.Name]
		return text, ok
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && f.imports[x.Name] != "" {
			if p, err := w.load(f.imports[x.Name]); err == nil {
				text, ok := p.consts[e.Sel.Name]
				return text, ok
			}
		}
	}
	return "", false
}

// add merges a key with what is known of it. Two tagged fields of one name are two lines (a deprecated source beside the new
// one); what code reads of a key that also has a tag is noted in its origin.
func (w *walk) add(k key) {
	k.trigger = w.trigger
	id := k.name
	code := strings.HasPrefix(k.origin, "code")
	old := w.keys[id]
	switch {
	case old == nil:
		w.keys[id] = &k
	case code && strings.HasPrefix(old.origin, "code"):
		old.from = union(old.from, k.from)
	case code:
		if !strings.Contains(old.from, k.from) {
			old.readToo = union(old.readToo, k.from)
		}
	case strings.HasPrefix(old.origin, "code"):
		for _, from := range strings.Split(old.from, ";") {
			if !strings.Contains(k.from, from) {
				k.readToo = union(k.readToo, from)
			}
		}
		w.keys[id] = &k
	case old.from == k.from && old.deprecated == k.deprecated:
		if old.origin != k.origin {
			old.origin += " and " + k.origin
		}
	default:
		for strings.HasPrefix(id, k.name) && w.keys[id] != nil {
			id += "\x00"
		}
		w.keys[id] = &k
	}
}

// union adds an item to a list.
func union(list, item string) string {
	switch {
	case list == "":
		return item
	case strings.Contains(";"+list+";", ";"+item+";"):
		return list
	}
	return list + ";" + item
}

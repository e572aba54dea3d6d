package main

import (
	"go/ast"
	"strings"
)

// index reads config.TriggerMetadata["key"] and its sisters.
func (w *walk) index(f *function, n *ast.IndexExpr) {
	from := mapName(f, n.X)
	if from == "" {
		return
	}
	texts := w.loopKeys(f, n.Index)
	if text, ok := w.text(f, n.Index); ok {
		texts = append(texts, text)
	}
	for _, text := range texts {
		w.read(f, text, from)
	}
}

func (w *walk) read(f *function, text, from string) {
	if name, env := strings.CutSuffix(text, "FromEnv"); env && from == "triggerMetadata" {
		text, from = name, "resolvedEnv"
	}
	w.add(key{name: text, need: "optional", kind: "string", from: from, origin: "code " + f.file})
}

// mapName says which of the three maps an expression is: config.TriggerMetadata, or a parameter that is called so.
func mapName(f *function, e ast.Expr) string {
	name := ""
	switch e := e.(type) {
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.Ident:
		if isMapParameter(f, e.Name) {
			name = e.Name
		} else if sel := assignedFrom(f, e.Name); sel != nil {
			name = sel.Sel.Name
		}
	}
	switch strings.ToLower(name) {
	case "triggermetadata", "metadata":
		return "triggerMetadata"
	case "authparams":
		return "authParams"
	}
	return ""
}

// assignedFrom finds `name := config.AuthParams`.
func assignedFrom(f *function, name string) *ast.SelectorExpr {
	var found *ast.SelectorExpr
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, l := range a.Lhs {
				if id, ok := l.(*ast.Ident); ok && id.Name == name {
					if sel, ok := a.Rhs[i].(*ast.SelectorExpr); ok {
						found = sel
					}
				}
			}
		}
		return true
	})
	return found
}

func isMapParameter(f *function, name string) bool {
	for _, p := range f.decl.Type.Params.List {
		if _, ok := p.Type.(*ast.MapType); !ok {
			continue
		}
		for _, n := range p.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// loopKeys are the keys of a map literal over which the code ranges, where the index is the loop's key.
func (w *walk) loopKeys(f *function, index ast.Expr) []string {
	id, ok := index.(*ast.Ident)
	if !ok {
		return nil
	}
	var over, keys []string
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.RangeStmt); ok {
			k, _ := r.Key.(*ast.Ident)
			x, _ := r.X.(*ast.Ident)
			if k != nil && x != nil && k.Name == id.Name {
				over = append(over, x.Name)
			}
		}
		return true
	})
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
			return true
		}
		l, _ := a.Lhs[0].(*ast.Ident)
		lit, _ := a.Rhs[0].(*ast.CompositeLit)
		if l == nil || lit == nil || len(over) == 0 || l.Name != over[0] {
			return true
		}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if text, ok := literal(kv.Key); ok {
					keys = append(keys, text)
				}
			}
		}
		return true
	})
	return keys
}

// passed reads keys that a call hands to a function which indexes one of its maps by that parameter.
func (w *walk) passed(f, callee *function, call *ast.CallExpr) {
	if callee == nil || callee.decl.Body == nil {
		return
	}
	at := 0
	for _, p := range callee.decl.Type.Params.List {
		for _, n := range p.Names {
			if at >= len(call.Args) {
				return
			}
			text, ok := w.text(f, call.Args[at])
			at++
			if !ok {
				continue
			}
			ast.Inspect(callee.decl.Body, func(node ast.Node) bool {
				if i, ok := node.(*ast.IndexExpr); ok {
					id, isIdent := i.Index.(*ast.Ident)
					if from := mapName(callee, i.X); from != "" && isIdent && id.Name == n.Name {
						w.read(callee, text, from)
					}
				}
				return true
			})
		}
		if len(p.Names) == 0 {
			at++
		}
	}
}

// prefix reads keys that the code recognises by their beginning: strings.HasPrefix(key, "query.") in a loop over a map.
func (w *walk) prefix(f *function, r *ast.RangeStmt) {
	from := mapName(f, r.X)
	k, _ := r.Key.(*ast.Ident)
	if from == "" || k == nil {
		return
	}
	ast.Inspect(r.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || (sel.Sel.Name != "HasPrefix" && sel.Sel.Name != "CutPrefix") {
			return true
		}
		if id, ok := call.Args[0].(*ast.Ident); ok && id.Name == k.Name {
			if text, ok := w.text(f, call.Args[1]); ok {
				w.add(key{name: text + "*", need: "optional", kind: "string", from: from, origin: "code " + f.file})
			}
		}
		return true
	})
}

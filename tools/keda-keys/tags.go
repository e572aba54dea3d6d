package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// typeOf finds the type of a local variable or an address of one.
func (w *walk) typeOf(f *function, e ast.Expr) (typeIn, bool) {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		e = u.X
	}
	in := func(t ast.Expr) (typeIn, bool) { return typeIn{t, f.pkg, f.imports}, t != nil }
	if lit, ok := e.(*ast.CompositeLit); ok {
		return in(lit.Type)
	}
	id, ok := e.(*ast.Ident)
	if !ok {
		return typeIn{}, false
	}
	fields := []*ast.Field{}
	if f.decl.Type.Params != nil {
		fields = append(fields, f.decl.Type.Params.List...)
	}
	if f.decl.Type.Results != nil {
		fields = append(fields, f.decl.Type.Results.List...)
	}
	if f.decl.Recv != nil {
		fields = append(fields, f.decl.Recv.List...)
	}
	var found ast.Expr
	for _, field := range fields {
		for _, name := range field.Names {
			if name.Name == id.Name {
				found = field.Type
			}
		}
	}
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if x, ok := l.(*ast.Ident); !ok || x.Name != id.Name || i >= len(n.Rhs) {
					continue
				}
				r := n.Rhs[i]
				if u, ok := r.(*ast.UnaryExpr); ok && u.Op == token.AND {
					r = u.X
				}
				switch r := r.(type) {
				case *ast.CompositeLit:
					found = r.Type
				case *ast.CallExpr:
					if fun, ok := r.Fun.(*ast.Ident); ok && fun.Name == "new" {
						found = r.Args[0]
					}
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				if name.Name == id.Name && n.Type != nil {
					found = n.Type
				}
			}
		}
		return true
	})
	return in(found)
}

// named resolves a type expression to a declaration of the module.
func (w *walk) named(t typeIn) (*ast.TypeSpec, *pkg) {
	switch e := t.expr.(type) {
	case *ast.StarExpr:
		return w.named(typeIn{e.X, t.pkg, t.imports})
	case *ast.Ident:
		return t.pkg.types[e.Name], t.pkg
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && t.imports[x.Name] != "" {
			if p, err := w.load(t.imports[x.Name]); err == nil {
				return p.types[e.Sel.Name], p
			}
		}
	}
	return nil, nil
}

// structure adds the tagged fields of a struct.
func (w *walk) structure(t typeIn, optional bool) {
	if star, ok := t.expr.(*ast.StarExpr); ok {
		t.expr = star.X
	}
	if st, ok := t.expr.(*ast.StructType); ok {
		w.fields(st, t, optional, "struct")
		return
	}
	spec, p := w.named(t)
	if spec == nil {
		w.err = fmt.Errorf("%s: a struct of another module", w.set.Position(t.expr.Pos()))
		return
	}
	inner := typeIn{spec.Type, p, w.typeImports[spec]}
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		w.structure(inner, optional)
		return
	}
	w.fields(st, inner, optional, w.typeFile[spec]+":"+spec.Name.Name)
}

func (w *walk) fields(st *ast.StructType, in typeIn, optional bool, origin string) {
	for _, field := range st.Fields.List {
		if field.Tag == nil {
			continue
		}
		raw, _ := strconv.Unquote(field.Tag.Value)
		tag, ok := reflect.StructTag(raw).Lookup("keda")
		if !ok {
			continue
		}
		k := parseTag(tag)
		k.origin = origin
		if k.need == "" {
			k.need = "required"
			if optional {
				k.need = "optional"
			}
		}
		if k.name == "" { // nested: Go's own parser calls the struct optional too
			w.structure(typeIn{field.Type, in.pkg, in.imports}, optional || k.need == "optional")
			continue
		}
		k.kind = w.kind(typeIn{field.Type, in.pkg, in.imports})
		w.add(k)
	}
}

// parseTag reads the tag as paramsFromTag of pkg/scalers/scalersconfig does.
func parseTag(tag string) key {
	var k key
	for _, part := range strings.Split(tag, ",") {
		word, value, has := strings.Cut(part, "=")
		if i := strings.Index(value, "="); i >= 0 { // a second `=` ends the value there
			value = value[:i]
		}
		trimmed := strings.TrimSpace(value)
		switch strings.TrimSpace(word) {
		case "optional":
			if b, err := strconv.ParseBool(trimmed); !has || (err == nil && b) {
				k.need = "optional"
			}
		case "order":
			var from []string
			for _, o := range strings.Split(value, ";") {
				from = append(from, strings.TrimSpace(o))
			}
			k.from = strings.Join(from, ";")
		case "name":
			names := strings.Split(trimmed, ";")
			k.name, k.aliases = names[0], names[1:]
		case "deprecated":
			if k.deprecated = trimmed; !has {
				k.deprecated = "yes"
			}
		case "deprecatedAnnounce":
			if k.announced = trimmed; !has {
				k.announced = "yes"
			}
		case "default":
			k.def = trimmed
		case "enum":
			k.values = value
		case "exclusiveSet":
			k.exclusive = value
		case "range":
			if k.ranges = trimmed; !has {
				k.ranges = "-"
			}
			if k.ranges == "-" {
				k.ranges = "a-b"
			}
		case "separator":
			k.separator = trimmed
		}
	}
	if k.need == "" && (k.def != "" || k.deprecated != "") {
		k.need = "optional"
	}
	return k
}

// kind says what a value is parsed as.
func (w *walk) kind(t typeIn) string {
	switch e := t.expr.(type) {
	case *ast.StarExpr:
		return w.kind(typeIn{e.X, t.pkg, t.imports})
	case *ast.ArrayType:
		return "[]" + w.kind(typeIn{e.Elt, t.pkg, t.imports})
	case *ast.MapType:
		return "map"
	case *ast.Ident:
		if spec := t.pkg.types[e.Name]; spec != nil {
			return w.kind(typeIn{spec.Type, t.pkg, w.typeImports[spec]})
		}
		return e.Name
	case *ast.SelectorExpr:
		x, _ := e.X.(*ast.Ident)
		if spec, p := w.named(t); spec != nil {
			return w.kind(typeIn{spec.Type, p, w.typeImports[spec]})
		}
		return x.Name + "." + e.Sel.Name
	}
	return "json"
}

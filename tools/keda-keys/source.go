package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

const modulePath = "github.com/kedacore/keda/v2/"

// pkg is a Go package of the module: its declarations by name.
type pkg struct {
	dir     string
	types   map[string]*ast.TypeSpec
	imports map[ast.Node]map[string]string // of the file that a declaration stands in: local name to directory
	funcs   map[string]*function
	methods map[string][]*function // by name, whatever the receiver
	consts  map[string]string
}

type function struct {
	decl    *ast.FuncDecl
	pkg     *pkg
	imports map[string]string
	file    string
}

// typeIn is a type expression and where its names are looked up.
type typeIn struct {
	expr    ast.Expr
	pkg     *pkg
	imports map[string]string
}

type source struct {
	module string
	set    *token.FileSet
	pkgs   map[string]*pkg
	// fileOf gives the imports of the file that holds a type.
	typeImports map[*ast.TypeSpec]map[string]string
	typeFile    map[*ast.TypeSpec]string
}

func newSource(module string) *source {
	return &source{module: module, set: token.NewFileSet(), pkgs: map[string]*pkg{},
		typeImports: map[*ast.TypeSpec]map[string]string{}, typeFile: map[*ast.TypeSpec]string{}}
}

// load parses the Go files of a directory of the module, tests apart.
func (s *source) load(dir string) (*pkg, error) {
	if p := s.pkgs[dir]; p != nil {
		return p, nil
	}
	names, err := filepath.Glob(filepath.Join(s.module, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &pkg{dir: dir, types: map[string]*ast.TypeSpec{}, funcs: map[string]*function{}, methods: map[string][]*function{}, consts: map[string]string{}}
	s.pkgs[dir] = p
	sort.Strings(names)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		imports := map[string]string{}
		for _, i := range file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			local := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				local = i.Name.Name
			}
			if rest, ok := strings.CutPrefix(path, modulePath); ok {
				imports[local] = rest
			}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				f := &function{decl: d, pkg: p, imports: imports, file: filepath.Base(name)}
				if d.Recv == nil {
					p.funcs[d.Name.Name] = f
				} else {
					p.methods[d.Name.Name] = append(p.methods[d.Name.Name], f)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						p.types[spec.Name.Name] = spec
						s.typeImports[spec] = imports
						s.typeFile[spec] = filepath.Base(name)
					case *ast.ValueSpec:
						for i, n := range spec.Names {
							if i < len(spec.Values) {
								if text, ok := literal(spec.Values[i]); ok {
									p.consts[n.Name] = text
								}
							}
						}
					}
				}
			}
		}
	}
	return p, nil
}

func literal(e ast.Expr) (string, bool) {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 { // Type("text")
		e = call.Args[0]
	}
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

type caseBody struct {
	trigger string
	body    []ast.Stmt
}

// cases are the trigger types of the builder with the code of each.
func (s *source) cases(start *function) []caseBody {
	var out []caseBody
	ast.Inspect(start.decl, func(n ast.Node) bool {
		sw, ok := n.(*ast.SwitchStmt)
		if !ok {
			return true
		}
		for _, stmt := range sw.Body.List {
			clause := stmt.(*ast.CaseClause)
			for _, e := range clause.List {
				if text, ok := literal(e); ok {
					out = append(out, caseBody{text, clause.Body})
				}
			}
		}
		return false
	})
	sort.Slice(out, func(i, j int) bool { return out[i].trigger < out[j].trigger })
	return out
}

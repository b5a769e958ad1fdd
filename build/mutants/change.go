package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// A change replaces a piece of one file.
type change struct {
	File       string // from the root of the tree
	Line       int
	What       string // for people
	start, end int    // of the piece, in bytes
	text       string // what comes in its place
}

// apply returns the file's text with the change made.
func (c change) apply(text []byte) []byte {
	out := append([]byte(nil), text[:c.start]...)
	return append(append(out, c.text...), text[c.end:]...)
}

// A finder collects the changes of one file.
type finder struct {
	file       string
	text       []byte
	set        *token.FileSet
	neighbours map[string]string // of the constants
	found      []change
}

// findChanges lists every change that can be made in the functions of a file. Some of them won't compile.
func findChanges(file string, text []byte, neighbours map[string]string) ([]change, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{file: file, text: text, set: set, neighbours: neighbours}
	for _, d := range parsed.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.returnEarly(fn)
			ast.Inspect(fn.Body, f.visit)
		}
	}
	return f.found, nil
}

// source is the text between two positions.
func (f *finder) source(from, to token.Pos) string {
	return string(f.text[f.set.Position(from).Offset:f.set.Position(to).Offset])
}

func (f *finder) add(from, to token.Pos, text, what string) {
	start := f.set.Position(from)
	f.found = append(f.found, change{File: f.file, Line: start.Line, What: what,
		start: start.Offset, end: f.set.Position(to).Offset, text: text})
}

// swap replaces the text between two positions.
func (f *finder) swap(from, to token.Pos, text string) {
	f.add(from, to, text, fmt.Sprintf("%s becomes %s", oneLine(f.source(from, to)), oneLine(text)))
}

// swapInLine is swap for a piece that says little without its line.
func (f *finder) swapInLine(from, to token.Pos, text string) {
	line := f.set.File(from).LineStart(f.set.Position(from).Line)
	rest, _, _ := strings.Cut(string(f.text[f.set.Position(line).Offset:]), "\n")
	f.add(from, to, text, fmt.Sprintf("%s: %s becomes %s", oneLine(rest), f.source(from, to), text))
}

// operator is swap for an operator, of which the whole expression is shown.
func (f *finder) operator(e *ast.BinaryExpr, by token.Token) {
	f.add(e.OpPos, e.OpPos+token.Pos(len(e.Op.String())), by.String(),
		fmt.Sprintf("%s: %s becomes %s", oneLine(f.source(e.Pos(), e.End())), e.Op, by))
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.SwitchStmt:
		f.cases(n.Body, n.Tag == nil)
	case *ast.TypeSwitchStmt:
		f.cases(n.Body, false)
	case *ast.BinaryExpr:
		if by, ok := operators[n.Op]; ok {
			f.operator(n, by)
		}
	case *ast.BlockStmt:
		f.drop(n.List)
	case *ast.CaseClause:
		f.drop(n.Body)
	case *ast.IncDecStmt:
		f.swapInLine(n.TokPos, n.TokPos+2, map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok])
	case *ast.AssignStmt:
		if by, ok := assignments[n.Tok]; ok {
			f.swap(n.Pos(), n.End(), f.source(n.Pos(), n.TokPos)+by.String()+" "+f.source(n.Rhs[0].Pos(), n.End()))
		}
	case *ast.BasicLit:
		f.literal(n)
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			f.constant(x.Name+"."+n.Sel.Name, n.Sel)
		}
		return false
	case *ast.Ident:
		f.constant(n.Name, n)
	case *ast.CallExpr:
		if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "min" || fn.Name == "max") {
			f.swapInLine(fn.Pos(), fn.End(), map[string]string{"min": "max", "max": "min"}[fn.Name])
		}
	}
	return true
}

// operators are what each operator is replaced by.
var operators = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

var assignments = map[token.Token]token.Token{token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN}

// negate turns a condition round. An equation is turned round by its operator already.
func (f *finder) negate(cond ast.Expr) {
	if e, ok := cond.(*ast.BinaryExpr); ok && (e.Op == token.EQL || e.Op == token.NEQ) {
		return
	}
	f.swap(cond.Pos(), cond.End(), "!("+f.source(cond.Pos(), cond.End())+")")
}

// cases removes one case after the other, and negates those that are conditions.
func (f *finder) cases(body *ast.BlockStmt, conditions bool) {
	for _, s := range body.List {
		c := s.(*ast.CaseClause)
		head := f.source(c.Pos(), c.Colon)
		f.add(c.Pos(), c.End(), "", "removed: "+oneLine(head))
		for _, e := range c.List {
			if conditions {
				f.negate(e)
			}
		}
	}
}

// drop removes the statements that call or assign, one after the other.
func (f *finder) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		default:
			continue
		}
		f.add(s.Pos(), s.End(), "", "dropped: "+oneLine(f.source(s.Pos(), s.End())))
	}
}

// literal replaces a whole number by the next one.
func (f *finder) literal(l *ast.BasicLit) {
	if n, err := strconv.ParseInt(l.Value, 0, 64); err == nil && l.Kind == token.INT {
		f.swapInLine(l.Pos(), l.End(), strconv.FormatInt(n+1, 10))
	}
}

// constant replaces a constant by its neighbour.
func (f *finder) constant(name string, at *ast.Ident) {
	if by, ok := f.neighbours[name]; ok {
		f.swapInLine(at.Pos(), at.End(), by)
	}
}

// returnEarly makes a function return what its results are before anything is done.
func (f *finder) returnEarly(fn *ast.FuncDecl) {
	if len(fn.Body.List) == 0 {
		return
	}
	var zeros []string
	if fn.Type.Results != nil {
		for _, r := range fn.Type.Results.List {
			for range max(len(r.Names), 1) {
				zeros = append(zeros, "*new("+f.source(r.Type.Pos(), r.Type.End())+")")
			}
		}
	}
	at := fn.Body.Lbrace + 1
	f.add(at, at, strings.TrimRight(" return "+strings.Join(zeros, ", "), " ")+";",
		fn.Name.Name+" returns at once")
}

// findNeighbours lists the constants of a package that stand in a group, each with the next one, the last with the one
// before it. They are named with the package, too, as other packages write them.
func findNeighbours(files map[string][]byte) (map[string]string, error) {
	neighbours := map[string]string{}
	for name, text := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			group := constants(g)
			for i, c := range group {
				if len(group) > 1 {
					by := group[(i+1)%len(group)]
					neighbours[c] = by
					neighbours[parsed.Name.Name+"."+c] = by
				}
			}
		}
	}
	return neighbours, nil
}

func constants(g *ast.GenDecl) (names []string) {
	for _, s := range g.Specs {
		for _, n := range s.(*ast.ValueSpec).Names {
			if n.Name != "_" {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// oneLine shortens a piece of code for a table.
func oneLine(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	const most = 100
	if len(code) > most {
		code = code[:most] + " ..."
	}
	return code
}

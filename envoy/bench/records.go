package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/envoy/bench/report"
	"github.com/headgate/headgate/wasmtest"
)

// recordSizes are how many there are of a thing in a record; of columns there can be fewer, since each is a worker.
var recordSizes = []int{1, 4, 16, 64, 256, 1024}

const mostColumns = 64

// A growth is one way in which a record grows.
type growth struct {
	name   string
	fairBy bool
	most   int
	// load says what makes a record with n of the thing: so many requests to so many workers in turn, at that limit.
	load   func(n int) (requests, workers, limit int)
	tenant func(i int) string
}

var growths = []growth{
	{"tenants, each with one that runs", true, 1024, func(n int) (int, int, int) { return n, 1, n },
		func(i int) string { return fmt.Sprint("tenant-", i) }},
	{"columns (workers), each with one that runs", false, mostColumns, func(n int) (int, int, int) { return n, n, n },
		func(int) string { return "t" }},
	{"tickets (requests that wait), of one tenant", false, 1024, func(n int) (int, int, int) { return n + 1, 1, 1 },
		func(int) string { return "t" }},
}

func runRecords(options, string) (*report.Part, error) { return withModule(weighRecords) }

func weighRecords(module *wasmtest.Module) (p *report.Part, err error) {
	bytes := make([][]int, len(growths))
	for i, g := range growths {
		for _, n := range recordSizes {
			if n > g.most {
				break
			}
			size, err := g.recordBytes(module, n)
			if err != nil {
				return nil, fmt.Errorf("%d %s: %w", n, g.name, err)
			}
			bytes[i] = append(bytes[i], size)
		}
	}
	p = recordsPart(bytes)
	p.Pictures, err = recordsPictures(bytes)
	return p, err
}

// recordBytes is the length of a record with n of what the growth is about.
func (g growth) recordBytes(module *wasmtest.Module, n int) (int, error) {
	requests, workers, limit := g.load(n)
	host, err := wasmtest.New(module, wasmtest.WithWorkers(workers))
	if err != nil {
		return 0, err
	}
	defer host.Close()
	fairBy := ""
	if g.fairBy {
		fairBy = `,"fair_by":"tenant"`
	}
	plugin, err := host.Load(wasmtest.PluginConfig{Name: "headgate", RootID: "headgate", Configuration: fmt.Appendf(nil,
		`{"identity":{"tenant":[{"header":"x-tenant","trusted":true}]},"pools":[{"name":%q,"limit":%d,"queue":10000,`+
			`"max_wait":"60s"%s}]}`, hotPool, limit, fairBy)})
	if err != nil {
		return 0, err
	}
	for i := range requests {
		headers := wasmtest.RequestHeaders("POST", governedPath, "x-tenant", g.tenant(i))
		plugin.Stream(i%workers).RequestHeaders(headers, true)
	}
	host.Drain()
	size := 0
	for _, key := range host.SharedData().Keys() {
		if strings.Contains(key, "/"+hotPool+"/") {
			value, _, _ := host.SharedData().Get(key)
			size += len(value)
		}
	}
	return size, host.Verify()
}

func recordsPart(bytes [][]int) *report.Part {
	p := &report.Part{Name: "records", Lead: "Bytes of the record of one key, by what is in it. Each worker that runs " +
		"or waits for something there has a column."}
	p.Table.Header = []string{"the record has"}
	for _, n := range recordSizes {
		p.Table.Header = append(p.Table.Header, strconv.Itoa(n))
	}
	p.Table.Header = append(p.Table.Header, "for each more")
	for i, g := range growths {
		row := []string{g.name}
		for j := range recordSizes {
			if j < len(bytes[i]) {
				row = append(row, strconv.Itoa(bytes[i][j]))
			} else {
				row = append(row, "")
			}
		}
		last := len(bytes[i]) - 1
		p.Table.Add(append(row, fmt.Sprintf("%.0f", share(bytes[i][last]-bytes[i][0], recordSizes[last]-recordSizes[0])))...)
	}
	return p
}

func recordsPictures(bytes [][]int) ([]report.Picture, error) {
	var lines []report.Line
	for i, g := range growths {
		l := report.Line{Name: g.name}
		for j, size := range bytes[i] {
			l.X = append(l.X, float64(recordSizes[j]))
			l.Y = append(l.Y, report.Exactly(float64(size)))
		}
		lines = append(lines, l)
	}
	svg, err := report.Lines("Bytes of a record", "tenants, columns or tickets", "bytes", false, lines)
	return []report.Picture{{File: "performance-records.svg", SVG: svg,
		Alt: "Lines: bytes of a record by the number of its tenants, columns or tickets"}}, err
}

package wasmbuild

import "strings"

// An edit takes one thing out of Go's runtime.
type edit struct {
	what    string
	changes []change
}

// A change puts as many lines in the place of lines that a file of the runtime has once: a traceback still names the
// lines of Go's own source.
type change struct{ file, old, new string }

var edits = []edit{
	{"the execution tracer, which package runtime/trace would start", []change{
		{"traceruntime.go", "\treturn trace.enabled\n", "\treturn false\n"},
		{"traceruntime.go", "\treturn trace.enabledWithAllocFree\n", "\treturn false\n"},
		{"traceruntime.go", "\treturn trace.shutdown.Load()\n", "\treturn false\n"},
	}},
	{"decimal floating-point numbers in println and in the text of a panic: they are bits in hexadecimal", []change{
		{
			"print.go",
			"\tvar buf [float64Bytes]byte\n\tgwrite(strconv.AppendFloat(buf[:0], v, 'g', -1, 64))\n",
			"\tbits := float64bits(v)\n\tprinthex(bits)\n",
		}, {
			"print.go",
			"\tvar buf [float32Bytes]byte\n\tgwrite(strconv.AppendFloat(buf[:0], float64(v), 'g', -1, 32))\n",
			"\tbits := float64bits(float64(v))\n\tprinthex(bits)\n",
		}, {
			"print.go",
			"\tvar buf [complex128Bytes]byte\n\tgwrite(strconv.AppendComplex(buf[:0], c, 'g', -1, 128))\n",
			"\tre, im := real(c), imag(c)\n\tprint(\"(\", re, \" \", im, \"i)\")\n",
		}, {
			"print.go",
			"\tvar buf [complex64Bytes]byte\n\tgwrite(strconv.AppendComplex(buf[:0], complex128(c), 'g', -1, 64))\n",
			"\tre, im := real(c), imag(c)\n\tprint(\"(\", re, \" \", im, \"i)\")\n",
		},
	}},
	{"types that several parts of a program have in common, as with package plugin: wasm is one part", []change{
		{"type.go", "\tif firstmoduledata.next == nil {\n", "\tif true {\n"},
	}},
}

// apply returns the edited files, and the edits that don't fit: Go has another runtime then. These are left out whole.
func apply(all []edit, read func(file string) (string, error)) (files map[string]string, unfit []edit, err error) {
	files = map[string]string{}
	for _, e := range all {
		edited := map[string]string{}
		fits := true
		for _, c := range e.changes {
			text, known := edited[c.file]
			if !known {
				text, known = files[c.file]
			}
			if !known {
				if text, err = read(c.file); err != nil {
					return nil, nil, err
				}
			}
			fits = fits && strings.Count(text, c.old) == 1
			edited[c.file] = strings.Replace(text, c.old, c.new, 1)
		}
		if !fits {
			unfit = append(unfit, e)
			continue
		}
		for file, text := range edited {
			files[file] = text
		}
	}
	return files, unfit, nil
}

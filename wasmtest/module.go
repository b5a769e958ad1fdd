package wasmtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/headgate/headgate/wasmtest/internal/datasegments"
	"github.com/headgate/headgate/wasmtest/internal/memory"
)

// ErrModule is wrapped by every error of [Compile]: the real host would not load these bytes either.
var ErrModule = errors.New("not a loadable proxy-wasm 0.2.1 module")

const abiVersionExport = "proxy_abi_version_0_2_1"

// Module is a compiled filter. Compile it once and share it: it may be used by any number of hosts, also in parallel
// tests. Close it when the last of them is closed (a test binary may also just exit).
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	memories memory.Pool
}

// CompileOption changes how [Compile] works.
type CompileOption func(*compileOptions)

type compileOptions struct {
	cacheDir    string
	interpreter bool
}

// WithCacheDir keeps machine code in dir between processes. Compiling a 2 MB module takes seconds; reading it back
// takes milliseconds. The directory may be shared by several test binaries.
func WithCacheDir(dir string) CompileOption {
	return func(o *compileOptions) { o.cacheDir = dir }
}

// WithInterpreter runs the module in wazero's interpreter: slower by far, but without a compile step.
func WithInterpreter() CompileOption {
	return func(o *compileOptions) { o.interpreter = true }
}

// Compile validates and compiles a filter given as the bytes of its .wasm file.
//
// It fails, wrapping [ErrModule], when the bytes are no wasm module, the ABI version export is missing, there is
// neither malloc nor proxy_on_memory_allocate, a callback has the wrong signature, or an import is one that the real
// host doesn't offer.
func Compile(wasm []byte, options ...CompileOption) (*Module, error) {
	var o compileOptions
	for _, option := range options {
		option(&o)
	}
	config := wazero.NewRuntimeConfig()
	if o.interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	if o.cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(o.cacheDir)
		if err != nil {
			return nil, fmt.Errorf("compilation cache %q: %w", o.cacheDir, err)
		}
		config = config.WithCompilationCache(cache)
	}
	ctx := context.Background()
	m := &Module{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	if err := m.build(ctx, wasm); err != nil {
		_ = m.runtime.Close(ctx)
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	return m, nil
}

func (m *Module) build(ctx context.Context, wasm []byte) error {
	if err := instantiateEnv(ctx, m.runtime); err != nil {
		return err
	}
	if err := instantiateWASI(ctx, m.runtime); err != nil {
		return err
	}
	compiled, err := m.runtime.CompileModule(ctx, datasegments.Merge(wasm))
	if err != nil {
		return err
	}
	m.compiled = compiled
	if err := m.checkExports(); err != nil {
		return err
	}
	return m.checkImports()
}

func (m *Module) checkExports() error {
	exports := m.compiled.ExportedFunctions()
	if exports[abiVersionExport] == nil {
		return fmt.Errorf("export %s is missing", abiVersionExport)
	}
	if exports["malloc"] == nil && exports["proxy_on_memory_allocate"] == nil {
		return errors.New("neither malloc nor proxy_on_memory_allocate is exported")
	}
	for _, d := range callbackDefinitions {
		if f := exports[d.name]; f != nil && !d.fits(f) {
			return fmt.Errorf("export %s has signature (%s) -> (%s): want %d i32 parameters and result: %t",
				d.name, typeNames(f.ParamTypes()), typeNames(f.ResultTypes()), d.params, d.returns)
		}
	}
	return nil
}

func (m *Module) checkImports() error {
	var unknown []string
	for _, f := range m.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		host := m.runtime.Module(module)
		if host == nil || host.ExportedFunctionDefinitions()[name] == nil {
			unknown = append(unknown, module+"."+name)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("imports the host doesn't offer: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// Exports reports whether the module exports a function of that name.
func (m *Module) Exports(name string) bool { return m.compiled.ExportedFunctions()[name] != nil }

// Imports lists the module's function imports as "module.name", in the order of its import section.
func (m *Module) Imports() []string {
	var names []string
	for _, f := range m.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		names = append(names, module+"."+name)
	}
	return names
}

// Close frees the machine code. No host may use the module afterwards.
func (m *Module) Close() error { return m.runtime.Close(context.Background()) }

func typeNames(types []api.ValueType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = api.ValueTypeName(t)
	}
	return strings.Join(names, ", ")
}

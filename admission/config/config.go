package config

import "github.com/headgate/headgate/admission"

// A Mode says what a decision does to a request.
type Mode uint8

// The modes. The zero Mode is enforce, the configuration's default.
const (
	ModeEnforce  Mode = iota // decide and act
	ModeShadow               // decide and count, let everything pass
	ModeDisabled             // neither decide nor count
)

// A Stage says where in Envoy a plugin instance runs, and so which pools it acquires.
type Stage uint8

// The stages. The zero Stage is request, the configuration's default.
const (
	StageRequest    Stage = iota // a lone downstream filter: all pools
	StageInvocation              // downstream filter: pools with per: invocation
	StageAttempt                 // upstream filter: pools with per: attempt
	StageAdmin                   // serves state and limits
)

// A Dimension is one thing a pool key is made of.
type Dimension uint8

// The dimensions.
const (
	DimensionTenant Dimension = iota
	DimensionModel
	DimensionRoute
	DimensionClass
	dimensionCount
)

// Per says how long a pool's permit is held.
type Per uint8

// The zero Per is invocation, the configuration's default.
const (
	PerInvocation Per = iota // over all tries of one client call
	PerAttempt               // for one upstream try
)

// OnError says what happens to a request that the store fails to decide.
type OnError uint8

// The zero OnError is open, the configuration's default.
const (
	OnErrorOpen   OnError = iota // let it pass
	OnErrorClosed                // refuse it
)

// MaxValue is the greatest length in bytes of a tenant's, model's or class's name. A configuration with a longer one is
// refused. Of a longer one in a request the beginning and a hash of the whole are kept.
const MaxValue = 128

// A Config is one validated plugin configuration. Values are valid by construction: only Parse makes one.
type Config struct {
	Mode     Mode
	Stage    Stage
	Domain   string
	Routes   []Route // empty: every request is governed
	Identity Identity
	Deadline Deadline
	Pools    []Pool
	MaxKeys  int
	Lease    admission.Duration
	OnError  OnError
	Admin    Admin
}

// Admin says who may reach the stage admin.
type Admin struct {
	Expose bool // also others than this machine
}

// Identity says where a request's dimensions come from; the first source that yields a value wins.
type Identity struct {
	Tenant  []Source
	Model   []Source
	Class   []Source
	Aliases map[string]string // model name -> the name it counts as
}

// A SourceKind says in which part of a request a source looks.
type SourceKind uint8

// The kinds of source.
const (
	SourceHeader          SourceKind = iota // Name: the header, lower case
	SourceMetadata                          // Path: namespace and keys of dynamic metadata
	SourcePeerCertificate                   // Name: uri_san, dns_san or subject
	SourceFilterState                       // Name: the filter state key
	SourceJSONBody                          // Name: the top-level key of the JSON body; MaxBytes: how much of it is read
	SourcePath                              // Prefix and Suffix around the {model} segment of a path template
	SourceCluster                           // the upstream cluster's name
	SourceValue                             // Name: the fixed value
)

// A Source is one part of a request from which a dimension's value is read.
type Source struct {
	Kind     SourceKind
	Name     string
	Path     []string
	Prefix   string // SourcePath: what stands before the placeholder, e.g. "/deployments/"
	Suffix   string // SourcePath: what stands behind it, e.g. "/" or ""
	MaxBytes int
}

// Deadline says which request headers carry the client's deadline, and which deadline a request without one has.
type Deadline struct {
	Headers []DeadlineHeader
	Default admission.Duration // 0: none
}

// A DeadlineHeader is a header that carries how long the client waits.
type DeadlineHeader struct {
	Name    string // lower case
	Seconds bool   // a bare number is of seconds, not of milliseconds
}

// A Pool is a named limit on concurrency; each key of it has its own permits, queue and holds.
type Pool struct {
	Name    string
	Key     []Dimension // empty: one key
	Per     Per
	Limit   int
	Queue   int
	MaxWait admission.Duration
	Keys    map[string]int // key value -> its own limit
	FairBy  bool           // fair_by: tenant
	Weights map[string]int // tenant -> weight, >= 1; absent: 1
	Match   []Match        // all of them must hold; empty: every request
	admission.Shaping
}

// A Match limits a pool to the requests whose dimension has one of the values.
type Match struct {
	Dimension Dimension
	Values    []string
}

// A Route is one pattern of governed requests, matched by trailing path segments on the normalised path.
type Route struct {
	Method   string   // empty: any
	Segments []string // e.g. "chat", "completions"; '*' in a segment stands for any run of characters
	Limit    int      // -1: none of its own
	Group    string   // "": none
	Name     string   // the key value of the route dimension: "@group", else the pattern without :N
}

package config

// The features that are configured and checked, but that this version does not act on. A configuration that asks for one
// is refused: to ignore it would let through what it was meant to stop. Building a feature deletes its line here.
var unbuilt = []struct {
	field string
	asked func(c *Config) bool
}{
	{"stage", func(c *Config) bool { return c.Stage == StageAdmin }},
}

// refuseUnbuilt is a *Error for the first feature of c that is not built, or nil.
func (c *Config) refuseUnbuilt() error {
	for _, u := range unbuilt {
		if u.asked(c) {
			return refusal(u.field, "is not built into this version yet")
		}
	}
	return nil
}

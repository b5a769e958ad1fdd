package config

// unbuilt are the features whose configuration is checked, but which this version does not have yet. A configuration
// that asks for one is refused: ignoring it would let through what it was meant to stop. Who builds a feature removes
// its line.
var unbuilt = []struct {
	field string
	asked func(c *Config) bool
}{
	{"stage", func(c *Config) bool { return c.Stage == StageAdmin }},
}

// refuseUnbuilt returns a *Error for the first feature that c asks for and that is not built, or nil.
func (c *Config) refuseUnbuilt() error {
	for _, u := range unbuilt {
		if u.asked(c) {
			return refusal(u.field, "is not built into this version yet")
		}
	}
	return nil
}

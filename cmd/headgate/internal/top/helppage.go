package top

// helpPage is what the keys do and what the signs mean.
func (m *model) helpPage() []string {
	t := m.theme
	keys := [][2]string{
		{"↑ ↓ j k  PgUp PgDn", "choose a key, or scroll"},
		{"enter", "look into a key: its tenants and its recent requests"},
		{"esc", "back; in the table: take the filter away"},
		{"/", "show what has a text in the name of its pool, key or tenants"},
		{"s  S", "sort by the next column; backwards"},
		{"l  (or a digit)", "change the key's limit; it asks before"},
		{"u", "back to the configuration's limit, where one was changed by hand; it asks before"},
		{"L  U", "the same for the default of all keys of the pool"},
		{"tab", "on a key's page: move the other list"},
		{"q", "quit"},
	}
	if m.options.Own != nil {
		keys[len(keys)-1][1] = "end the gateway, after a question (Ctrl-C: without one; twice: at once)"
		keys = append(keys, [2]string{"g", "what the gateway has said"})
	}
	lines := []string{""}
	for _, key := range keys {
		lines = append(lines, "  "+t.strong.Render(fitted(key[0], 20))+t.text.Render(key[1]))
	}
	signs := t.accent.Render("8*") + " changed by hand   " + t.accent.Render("8+") + " a share of the fleet's limit"
	bar := "in a bar: a colour for each tenant   " + t.held.Render("▒▒") + " on hold   " + t.dim.Render("··") + " free"
	if !t.colours {
		bar = "in a bar: a part for each tenant   ▒▒ on hold   ·· free"
	}
	lines = append(lines, "", "  "+signs, "  "+bar)
	if len(m.gateways) > 1 {
		lines = append(lines, "  Limits and figures are the sums of "+counted(len(m.gateways), "gateway")+
			"; of percentiles the highest is shown.")
	}
	return lines
}

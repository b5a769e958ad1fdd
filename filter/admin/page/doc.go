// Package page is the dashboard that the admin listener serves at /headgate/: one HTML file, page.html, with its style
// and its script inside. It asks nobody but the admin API beside it.
//
// The module carries Gzip, which is page.html without its indentation and comments, compressed, and Policy, the content
// security policy under which it runs. `go test ./filter/admin/page -rewrite` makes both after a change of page.html.
package page

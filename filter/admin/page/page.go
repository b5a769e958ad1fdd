package page

import _ "embed"

// Gzip is the page as it is sent, with the content encoding gzip.
//
//go:embed page.html.gz
var Gzip string

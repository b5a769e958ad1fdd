package page

// Gzip is the page as it is sent, with the content encoding gzip. It is a constant in Go: package embed would link
// 300 KB of the standard library into the module.
const Gzip = packed

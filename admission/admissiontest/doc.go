// Package admissiontest judges the core from outside: it watches a pool key's record go from state to state and says
// when one of the invariants of design.md, section 4, is broken. It knows the record's fields and nothing of the code
// that changes them, so any test that can see the steps can use it.
package admissiontest

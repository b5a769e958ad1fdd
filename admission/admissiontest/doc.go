// Package admissiontest judges the core from outside. A [Watch] follows a pool key's record from step to step, and says
// when an invariant of package admission is broken, by its number. It knows the record's fields and nothing of the code
// that changes them, so any test that can see the steps can use it.
package admissiontest

// Command printer prints floating-point numbers, for the tests of wasmbuild.
package main

func init() {
	println(float64(1.5), float32(-2), complex(1.5, 0), complex64(complex(0, -2)))
	defer func() { println(recover().(float64) == 1.5) }()
	panic(1.5)
}

func main() {}

//go:build race

package front

const raceDetector = true // it takes several times the memory

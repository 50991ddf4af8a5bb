package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"shadowlsp/internal/mode"
	"shadowlsp/internal/workspace"
)

// storeFlag is where branches live; "" is the default, the disk.
type storeFlag string

const memoryStore storeFlag = "memory"

func (s *storeFlag) String() string { return string(*s) }
func (*storeFlag) Type() string     { return "disk|memory" }

func (s *storeFlag) Set(text string) error {
	switch text {
	case "disk", string(memoryStore):
		*s = storeFlag(text)
		return nil
	}
	return errors.New("it must be disk or memory")
}

// sizeFlag is a number of bytes; 0 is the default, negative is no limit.
type sizeFlag int64

func (*sizeFlag) Type() string { return "size" }

func (s *sizeFlag) String() string {
	switch {
	case *s == 0:
		return ""
	case *s < 0:
		return "none"
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *sizeFlag) Set(text string) error {
	if text == "none" {
		*s = -1
		return nil
	}
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
	unit := int64(1)
	if at := strings.IndexAny(number, "KMGT"); at >= 0 && at == len(number)-1 {
		unit = 1 << (10 * (1 + strings.IndexByte("KMGT", number[at])))
		number = number[:at]
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value > 0) || value*float64(unit) < 1 || value*float64(unit) > math.MaxInt64/2 {
		return fmt.Errorf("%q is no size: write a number with K, M, G or T (powers of 1024), or none", text)
	}
	*s = sizeFlag(value * float64(unit))
	return nil
}

// modeFlag is how servers see a branch; "" is the default, auto.
type modeFlag string

func (m *modeFlag) String() string { return string(*m) }
func (*modeFlag) Type() string     { return "auto|full|elsewhere|documents" }

func (m *modeFlag) Set(text string) error {
	parsed, err := mode.Parse(text)
	*m = modeFlag(parsed)
	return err
}

func (m modeFlag) wanted() mode.Mode {
	if m == "" {
		return mode.Auto
	}
	return mode.Mode(m)
}

// ignored says what a running daemon does otherwise than these flags ask; "" is
// nothing.
func (o *options) ignored(running workspace.Status) string {
	switch l := running.Layers; {
	case o.mode != "" && o.mode.wanted() != mode.Auto && running.Mode.Mode != o.mode.wanted():
		return fmt.Sprintf("in mode %s and not %s", running.Mode.Mode, o.mode)
	case o.store != "" && l.Store != string(o.store):
		return fmt.Sprintf("with its branches in store %s and not %s", l.Store, o.store)
	case o.layerMax != 0 && l.Max != max(int64(o.layerMax), 0):
		return fmt.Sprintf("with --layer-max %d and not %d", l.Max, max(int64(o.layerMax), 0))
	}
	return ""
}

package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// positions DIR: reads a directory by small buffers, notes where it was after
	// each, and then, from each of these positions again, compares what follows:
	// while names are removed and others made.
	eyeDoes["positions"] = func(root string, args []string) (string, error) {
		dir := filepath.Join(root, args[0])
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		buf := make([]byte, 700)
		rest := func() (batches [][]string, at []int64, err error) {
			for {
				off, err := unix.Seek(fd, 0, unix.SEEK_CUR)
				if err != nil {
					return nil, nil, err
				}
				n, err := unix.ReadDirent(fd, buf)
				if err != nil || n == 0 {
					return batches, append(at, off), err
				}
				_, _, found := unix.ParseDirent(buf[:n], -1, nil)
				batches, at = append(batches, found), append(at, off)
			}
		}
		batches, at, err := rest()
		if err != nil {
			return "", err
		}
		gone := map[string]bool{}
		for i := range batches {
			// One name of each batch goes, and a new one comes.
			name := batches[i][0]
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return "", err
			}
			gone[name] = true
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("new_", i)), nil, 0o644); err != nil {
				return "", err
			}
			if _, err := unix.Seek(fd, at[i], unix.SEEK_SET); err != nil {
				return "", err
			}
			after, _, err := rest()
			if err != nil {
				return "", err
			}
			got := slices.DeleteFunc(slices.Concat(after...), func(s string) bool { return strings.HasPrefix(s, "new_") })
			want := slices.DeleteFunc(slices.Concat(batches[i:]...), func(s string) bool { return gone[s] })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				return "", fmt.Errorf("from position %d (batch %d of %d) follow %d names, want %d", at[i], i, len(batches), len(got), len(want))
			}
		}
		if _, err := unix.Seek(fd, at[len(at)-1], unix.SEEK_SET); err != nil {
			return "", err
		}
		if after, _, err := rest(); err != nil || len(after) > 0 {
			return "", fmt.Errorf("at the end: %v %v", after, err)
		}
		return "", nil
	}
	// sweep DIR: removes what it reads, as it reads it; and then the directory.
	eyeDoes["sweep"] = func(root string, args []string) (string, error) {
		dir := filepath.Join(root, args[0])
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		removed := 0
		for buf := make([]byte, 2000); ; {
			n, err := unix.ReadDirent(fd, buf)
			if err != nil {
				return "", err
			}
			if n == 0 {
				break
			}
			_, _, found := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range found {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					return "", err
				}
				removed++
			}
		}
		return fmt.Sprint(removed), os.Remove(dir)
	}
}

func TestPositionsInADirectory(t *testing.T) {
	files := map[string]string{"empty/": ""}
	for i := range crowd {
		files[fmt.Sprintf("big/some_name_%03d", i)] = ""
		files[fmt.Sprintf("bigger/%0200d", i)] = ""
	}
	s := newStage(t, files)
	for range 2 { // from us, then from the kernel's own
		s.eye.do("list", "big")
	}
	s.eye.do("positions", "big")
	s.eye.do("positions", "bigger")
	if got := s.eye.do("sweep", "bigger"); got != fmt.Sprint(crowd) {
		t.Errorf("%s names removed of %d", got, crowd)
	}
	s.eye.do("sweep", "empty")
	if _, err := s.eye.try("list", "bigger"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Package parcel answers: how does one message, with descriptors, cross a unix
// socket between two processes of this program?
//
// Model: a parcel is a length, a gob of one value, and up to [MaxFiles]
// descriptors that ride on its first byte. Both sides are the same binary, so
// the format needs no versions; gob and not JSON, because arguments and paths are
// bytes and need not be UTF-8.
//
// Invariants: what is received is close-on-exec, and on an error nothing that
// was received stays open.
//
// Absent on purpose: what the values mean, retries, time limits (who owns the
// connection closes it).
//
// Locks and goroutines: none; one goroutine at a time sends, and one receives.
package parcel

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

const (
	// maxSize bounds one parcel. The kernel bounds arguments and environment of a
	// program to a quarter of its stack limit, 2 MiB by default and 6 MiB at most.
	maxSize = 16 << 20
	// MaxFiles is how many descriptors one parcel carries at most.
	MaxFiles = 4
)

// Send sends v with descriptors, which stay the caller's.
func Send(c *net.UnixConn, v any, fds ...int) error {
	var b bytes.Buffer
	b.Write(make([]byte, 4))
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	frame := b.Bytes()
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	if len(fds) == 0 {
		_, err := c.Write(frame)
		return err
	}
	// A receiver that reads the length first has them before the body.
	n, _, err := c.WriteMsgUnix(frame, syscall.UnixRights(fds...), nil)
	if err == nil && n < len(frame) {
		_, err = c.Write(frame[n:])
	}
	return err
}

// Receive receives one parcel into v, and returns the descriptors that came with
// it.
func Receive(c *net.UnixConn, v any) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			Close(files)
			files = nil
		}
	}()
	var (
		head [4]byte
		oob  = make([]byte, syscall.CmsgSpace(4*MaxFiles))
	)
	for n := 0; n < len(head); {
		// Package net asks for MSG_CMSG_CLOEXEC.
		m, oobn, _, _, err := c.ReadMsgUnix(head[n:], oob)
		if err == nil && m == 0 {
			err = io.EOF
		}
		if oobn > 0 {
			files = append(files, descriptors(oob[:oobn])...)
		}
		if err != nil {
			return files, err
		}
		n += m
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxSize {
		return files, fmt.Errorf("message of %d bytes, over the limit of %d", size, maxSize)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c, body); err != nil {
		return files, err
	}
	return files, gob.NewDecoder(bytes.NewReader(body)).Decode(v)
}

func descriptors(oob []byte) (files []*os.File) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range msgs {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// Close closes descriptors.
func Close(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

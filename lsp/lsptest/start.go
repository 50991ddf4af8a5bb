package lsptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
)

// Start runs a server in the test's process and returns it with the client's
// end of its stream. Both end with the test.
func Start(t testing.TB, rules Rules) (*Server, io.ReadWriteCloser) {
	t.Helper()
	s := NewServer(rules, nil)
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		defer theirs.Close()
		if err := s.Serve(ctx, theirs, theirs); err != nil && ctx.Err() == nil && err != errCrash {
			t.Logf("toy server: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		ours.Close()
		theirs.Close()
		running.Wait()
	})
	return s, &watched{Conn: ours, cancel: cancel}
}

// watched ends the server, even one that stalls, when its client closes.
type watched struct {
	net.Conn
	cancel func()
}

func (w *watched) Close() error {
	w.cancel()
	return w.Conn.Close()
}

// argument marks a command line of Command.
const argument = "lsptest-server"

// Command returns the command that runs a server with these rules as a process:
// the test binary again. Its TestMain must call Main first.
func Command(rules Rules) []string {
	raw, err := json.Marshal(rules)
	if err != nil {
		panic(err) // Rules always encode
	}
	self, err := os.Executable()
	if err != nil {
		panic(err) // the test is running
	}
	return []string{self, argument, string(raw)}
}

// Main runs the server if the process was started by Command, and then does not
// return.
func Main() {
	if len(os.Args) != 3 || os.Args[1] != argument {
		return
	}
	var rules Rules
	if err := json.Unmarshal([]byte(os.Args[2]), &rules); err != nil {
		fmt.Fprintln(os.Stderr, "lsptest: rules:", err)
		os.Exit(2)
	}
	if err := NewServer(rules, os.Exit).Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lsptest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

package overlay

import "time"

// Options open a Store.
type Options struct {
	Base  string // the person's folder
	State string // directory that the store owns; made 0700 if missing. On tmpfs: memory mode
	// Limit is the bytes that all layers together may hold; 0: no limit.
	Limit int64
	// Clock is time.Now if nil.
	Clock func() time.Time
}

// Store is the layers of one root.
type Store struct{}

// Repair is something that Open found unfinished or damaged, and what it did.
type Repair struct {
	Branch string // "" when no branch is concerned
	Path   string
	What   string
}

// Open opens or makes the store at o.State. Busy when another process has it.
func Open(o Options) (*Store, []Repair, error) { panic("todo") }

// CreateOptions make a branch.
type CreateOptions struct {
	From string // a branch to start from; "": the base
	Keep bool   // outlives Close and kill -9
}

// Create makes a branch. The name is any text up to 200 bytes.
func (s *Store) Create(name string, o CreateOptions) (*Branch, error) { panic("todo") }

// Branch is the branch of that name.
func (s *Store) Branch(name string) (*Branch, error) { panic("todo") }

// Info describes a branch.
type Info struct {
	Name    string
	From    string
	Keep    bool
	Rev     uint64
	Created time.Time
	Layers  int
	Bytes   int64 // of its own top layer
}

// List is all branches, sorted by name.
func (s *Store) List() []Info { panic("todo") }

// Drop deletes a branch; layers that others use stay.
func (s *Store) Drop(name string) error { panic("todo") }

// Used is the bytes that all layers hold now.
func (s *Store) Used() int64 { panic("todo") }

// Close drops the branches that are not kept and gives the state directory
// free. Nodes and Files that are still open keep working where they can.
func (s *Store) Close() error { panic("todo") }

// Checkpoint is a remembered state of a branch.
type Checkpoint struct {
	ID      string
	Created time.Time
	Rev     uint64
}

// Checkpoint remembers what the branch shows now. name may be "" for a fresh id.
func (b *Branch) Checkpoint(name string) (Checkpoint, error) { panic("todo") }

// Checkpoints are those of the branch, oldest first.
func (b *Branch) Checkpoints() []Checkpoint { panic("todo") }

// Rollback makes the branch show the checkpoint again. Later checkpoints stay.
func (b *Branch) Rollback(id string) error { panic("todo") }

type file struct{}

package agent

// BranchesParams is empty.
type BranchesParams struct{}

// BranchesResult lists all branches of the workspace, by name.
type BranchesResult struct {
	Branches []BranchInfo `json:"branches"`
}

// BranchInfo describes a branch.
type BranchInfo struct {
	Name        string           `json:"name"`
	From        string           `json:"from,omitempty"` // the branch it was forked from
	Created     string           `json:"created"`        // RFC 3339
	Keep        bool             `json:"keep"`           // it stays when nobody holds it
	Rev         uint64           `json:"rev"`
	Overrides   int              `json:"overrides"`
	Git         int              `json:"git"`   // of these, those in .git: no patch, apply or commit brings them
	Bytes       int64            `json:"bytes"` // of its own layer
	Agents      int              `json:"agents"`
	Commands    int              `json:"commands"` // that run in it
	Checkpoints []CheckpointInfo `json:"checkpoints"`
}

// CheckpointInfo describes a checkpoint of a branch.
type CheckpointInfo struct {
	ID      string `json:"id"`
	Created string `json:"created"` // RFC 3339
}

// ForkParams make a branch over what this one shows now, which stays until it is
// dropped. Name absent: a fresh one.
type ForkParams struct {
	Name string `json:"name,omitempty"`
}

// ForkResult names the new branch: attach to it with a connection of its own.
type ForkResult struct {
	Branch string `json:"branch"`
}

// CheckpointParams name a checkpoint; absent: a fresh name.
type CheckpointParams struct {
	ID string `json:"id,omitempty"`
}

// CheckpointResult names the checkpoint.
type CheckpointResult struct {
	ID  string `json:"id"`
	Rev uint64 `json:"rev"`
}

// RollbackParams name a checkpoint of the branch. Force does it although commands
// run in the branch or others are attached to it.
type RollbackParams struct {
	ID    string `json:"id"`
	Force bool   `json:"force,omitempty"`
}

// RollbackResult tells the revision that shows the checkpoint.
type RollbackResult struct {
	Rev uint64 `json:"rev"`
}

// ApplyParams bring the branch to the person's folder, all of it or nothing, or,
// with Git, to a new git branch of the person's repository.
type ApplyParams struct {
	// Paths limit it to paths below the root and what is in them; absent: all.
	Paths []string `json:"paths,omitempty"`
	// Ignored includes files that git ignores (build output).
	Ignored bool `json:"ignored,omitempty"`
	// Force applies over files that have changed since, and over unsaved text of
	// the person; with Git, over what HEAD holds of files where the branch did not
	// begin with it and the two cannot be told apart.
	Force bool `json:"force,omitempty"`
	// DryRun only tells what would be done.
	DryRun  bool   `json:"dryRun,omitempty"`
	Git     string `json:"git,omitempty"`
	Message string `json:"message,omitempty"` // of the commit
}

// ApplyResult tells what was done.
type ApplyResult struct {
	// Paths are those that were made, changed or removed.
	Paths []string `json:"paths"`
	// Same are those that the folder held already.
	Same []string `json:"same,omitempty"`
	// Skipped are fifos, sockets and devices, which are not applied.
	Skipped []string `json:"skipped,omitempty"`
	// Conflicts are what stood, or would stand, in the way of an apply that is not
	// forced.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Commit and Git are the commit that was made and its branch.
	Commit string `json:"commit,omitempty"`
	Git    string `json:"git,omitempty"`
	// Included are the paths where the commit, forced, holds the branch's file although
	// the branch did not begin with HEAD's: with changes of the person that were not
	// committed, or without some that were committed since.
	Included []string `json:"included,omitempty"`
	Rev      uint64   `json:"rev"`
}

// Conflict is a path that has changed in the person's folder since the branch first
// changed it, with its three sides.
type Conflict struct {
	Path   string `json:"path"`
	Since  string `json:"since"` // what has happened to it: "changed", "made", "deleted"
	Then   Side   `json:"then"`
	Now    Side   `json:"now"`
	Branch Side   `json:"branch"`
}

// Side is one side of a conflict; Mode is "" where there is nothing. Text is the
// content, or a link's target; absent where it is no text, or is not known.
type Side struct {
	Mode string  `json:"mode,omitempty"`
	Text *string `json:"text,omitempty"`
}

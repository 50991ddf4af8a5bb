// Package workspace answers: how do the rooms make one daemon for one root?
//
// # Model
//
// A daemon owns the root's layers (overlay), the watched base and the views
// (fusefs), the agent port (lsp/agent) and a pool per language server. A pool is
// the shell around one scheduler: events in, actions out. An instance is one
// shadow server (lsp/shadow) in its own namespaces (internal/sandbox) with a
// switchable view. A branch joins the layers with the text that agents hold open
// on it; a session is one agent's connection to one branch; an editor is what
// the copies of one front have told.
//
// A question of an agent becomes a job of its branch. In its turn the instance
// shows the branch (show: view, then the news of files, then documents) and is
// brought to the branch's newest revision (sync) before the question is put.
//
// How a server comes to see a branch depends on the mode (internal/mode). A way
// carries the mode out, a sight is one instance's part of it; nothing else knows
// which mode it is.
//
// # Invariants
//
// An edit is in the branch before the call that brought it returns, so a later
// question sees it. What an instance writes while it shows no branch goes to a
// scratch branch of its own. Nothing here writes to the person's folder or sends
// anything to the person's server. An answer that could not be proven final
// leaves as an error (agent.Unproven).
//
// # Absent on purpose
//
// Policy (scheduler), proof (lsp/barrier), framing, errno values, flags and the
// environment.
//
// # Goroutines and locks
//
// Run returns when all have ended: one per listener, one per connection, one per
// instance (reap), one per action that takes time (owned by its pool), one that
// watches the instances (watchInstances), one that starts servers early (prewarm);
// in mode documents one that looks the folder over (scanned.run).
// Lock order: session.telling → session.mu → daemon.mu → pool.mu → instance.turn → instance.mu →
// branch.mu; daemon.looking, daemon.lowering and courtesy.mu come before daemon.mu,
// mentions.mu before the overlay;
// editor.mu and knowledge.mu are leaves. One exception: way.Sync is
// called with instance.turn held, and the subscriber that it waits for (in mode
// documents: calls, under scanned.mu) takes daemon.mu, instance.mu and branch.mu.
// So nobody waits for a turn with daemon.mu held.
// Overlay, fusefs and lsp are called with no lock but session.mu, instance.turn,
// mentions.mu and, for making branches, daemon.mu held.
package workspace

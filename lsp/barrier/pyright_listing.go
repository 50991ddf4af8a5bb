package barrier

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// pyrightListing is what is known of pyright's list of the project's files. It is
// part of what pyrightBarrier's watch guards.
//
// References, renames, symbols, calls and cycles of imports are looked for in the
// files of that list and in open ones (sourceFileInfoUtils.ts, isUserCode), and a
// file that was gone once, and imported then, is no more on it when it is back
// (program.ts, _parseFile). The list is made anew by a timer after files came or
// went, or after the configuration was read, and each change of a document puts
// that off by 250 ms (service.ts, scheduleReanalysis): what is asked meanwhile is
// answered from the old one. When it is made, the log says so (sourceEnumerator.ts,
// _finish).
type pyrightListing struct {
	// due says that the list may be an old one.
	due bool
	// unclear says that the next list to be made may have been begun before what
	// made it due was known.
	unclear bool
	// anew says that everything is read anew: one folder after the other, and what
	// belongs to none. Which list is whose the log does not say.
	anew bool
	// made counts the lists since then.
	made int
	// news counts what made it due.
	news int
}

// dueLocked takes in that files came or went.
func (l *pyrightListing) dueLocked() {
	*l = pyrightListing{due: true, unclear: l.due || l.unclear, anew: l.anew, news: l.news + 1}
}

// anewLocked takes in that everything is read anew.
func (l *pyrightListing) anewLocked() {
	*l = pyrightListing{due: true, anew: true, news: l.news + 1}
}

// madeLocked takes in that one of so many lists is made.
func (l *pyrightListing) madeLocked(lists int) {
	l.made++
	if !l.unclear && !l.anew && l.made >= lists {
		l.due = false
	}
}

// lists is how many it makes: each folder has its own, and where there is none, what
// belongs to none.
func (p *pyrightBarrier) lists() int { return max(1, len(p.host.Folders())) }

// pyrightListed says whether a message in the log is that a list is made.
func pyrightListed(text string) bool {
	return text == "No source files found." || strings.HasPrefix(text, "Found ") && strings.Contains(text, " source file")
}

// pyrightNowhere is the base name of a file that is nowhere.
const pyrightNowhere = ".shadowlsp-nowhere.py"

// listed returns when the list is one of the files as they are. One caller at a
// time.
func (p *pyrightBarrier) listed(ctx context.Context) error {
	for {
		var l pyrightListing
		if p.watch.view(func() { l = p.listing }); !l.due {
			return nil
		}
		if l.anew {
			if err := p.relisted(ctx, l.news); err != nil {
				return err
			}
			continue
		}
		unclear := false
		if l.unclear {
			if err := p.taken(ctx); err != nil {
				return err
			}
			p.watch.update(func() { unclear = p.listing.made > 0; p.listing.unclear = unclear })
		}
		if unclear {
			// A list was made meanwhile, and which one it was cannot be told.
			if err := p.reread(ctx); err != nil {
				return err
			}
			continue
		}
		overdue, err := p.overdue(ctx)
		if err != nil {
			return fmt.Errorf("it has not said that it has looked for the project's files: %w", err)
		}
		if overdue {
			// It has ignored what it was told: a file, say, that was gone again when
			// it looked.
			if err := p.reread(ctx); err != nil {
				return err
			}
		}
	}
}

// pyrightLister is the timer's time.
const pyrightLister = 250 * time.Millisecond

// relisted returns when all lists are made anew, behind a configuration that is read
// anew; or when there is other news. The timers that make them run from when that has
// been taken in.
func (p *pyrightBarrier) relisted(ctx context.Context, news int) error {
	if err := p.taken(ctx); err != nil {
		return err
	}
	if err := p.behind(ctx, pyrightLister); err != nil {
		return err
	}
	lists := p.lists()
	if err := p.watch.await(ctx, p.host.Done(), func() (bool, error) {
		return p.listing.made >= lists || p.listing.news != news, nil
	}); err != nil {
		return fmt.Errorf("it has not said that it has looked for the project's files in each of %d folders: %w", lists, err)
	}
	p.watch.update(func() {
		if p.listing.news == news {
			p.listing = pyrightListing{news: news}
		}
	})
	return nil
}

// pyrightOverdue is four times what it waits for at most.
const pyrightOverdue = time.Second

// overdue waits for the list. It says whether none will come.
func (p *pyrightBarrier) overdue(ctx context.Context) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, pyrightOverdue)
	defer cancel()
	err := p.watch.await(wait, p.host.Done(), func() (bool, error) {
		return !p.listing.due || p.listing.unclear || p.listing.anew, nil
	})
	if err == nil || ctx.Err() != nil || wait.Err() == nil {
		return false, err
	}
	busy, _ := p.host.Busy()
	return !busy, nil
}

// taken returns when all that was sent before has been taken in, its configuration
// included: questions about a document wait for that (workspaceFactory.ts,
// getWorkspaceForFile), and one that is nowhere has no other answer than none.
func (p *pyrightBarrier) taken(ctx context.Context) error {
	folder := "file://"
	if folders := p.host.Folders(); len(folders) > 0 {
		folder = folders[0]
	}
	return answered(ctx, p.host, "textDocument/diagnostic", map[string]any{
		"textDocument": map[string]string{"uri": folder + "/" + pyrightNowhere},
	})
}

// reread has it read its configuration, and what it knows of files, anew.
func (p *pyrightBarrier) reread(ctx context.Context) error {
	return p.host.Notify(ctx, "workspace/didChangeConfiguration", map[string]any{"settings": nil})
}

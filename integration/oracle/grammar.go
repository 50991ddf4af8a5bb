package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// Grammar is how to make small edits of a language, by rules for its text.
type Grammar struct {
	// Edit are patterns of the files to edit.
	Edit []string
	// Rules change one place of a file.
	Rules []Rule
	// New are files to add.
	New []NewFile
}

// Rule replaces one match of Find, chosen at random, by one of Replace, in which
// $1 is what a group has matched and § a number.
type Rule struct {
	Name    string
	Find    string
	Replace []string
}

// NewFile is a file to add beside an edited one: Name in its folder, Text with §
// and with $1 from the first match of Find in the edited one.
type NewFile struct{ Name, Find, Text string }

// expressions compiles each pattern once.
var expressions = map[string]*regexp.Regexp{}

func expression(pattern string) *regexp.Regexp {
	e := expressions[pattern]
	if e == nil {
		e = regexp.MustCompile(pattern)
		expressions[pattern] = e
	}
	return e
}

// numbered puts one number for every §.
func numbered(r *rand.Rand, template string) string {
	return strings.ReplaceAll(template, "§", strconv.Itoa(10+r.IntN(90)))
}

// rewrite makes one edit of a text. ok is false where no rule fits.
func (g Grammar) rewrite(r *rand.Rand, text string) (edited, what string, ok bool) {
	for range 4 * len(g.Rules) {
		rule := g.Rules[r.IntN(len(g.Rules))]
		find := expression(rule.Find)
		found := find.FindAllStringSubmatchIndex(text, -1)
		if len(found) == 0 {
			continue
		}
		at := found[r.IntN(len(found))]
		template := numbered(r, rule.Replace[r.IntN(len(rule.Replace))])
		with := string(find.ExpandString(nil, template, text, at))
		edited = text[:at[0]] + with + text[at[1]:]
		if edited == text {
			continue
		}
		line := 1 + strings.Count(text[:at[0]], "\n")
		return edited, fmt.Sprintf("%s in line %d: %.60q for %.60q", rule.Name, line, with, text[at[0]:at[1]]), true
	}
	return "", "", false
}

// add names and fills a new file beside an edited one.
func (g Grammar) add(r *rand.Rand, beside, text string) (name, content string, ok bool) {
	if len(g.New) == 0 {
		return "", "", false
	}
	n := g.New[r.IntN(len(g.New))]
	template := strings.SplitN(numbered(r, n.Name+"\x00"+n.Text), "\x00", 2)
	find := expression(n.Find)
	at := find.FindStringSubmatchIndex(text)
	if at == nil {
		return "", "", false
	}
	return dirOf(beside) + template[0], string(find.ExpandString(nil, template[1], text, at)), true
}

// dirOf is a path's folder with its slash, "" for the top.
func dirOf(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }

var word = regexp.MustCompile(`[A-Za-z_]\w{3,}`)

// words lists the identifiers of a text.
func words(text string) []string { return word.FindAllString(text, -1) }

// touched lists the words of the lines in which two texts differ.
func touched(before, after string) []string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return append(words(strings.Join(a, "\n")), words(strings.Join(b, "\n"))...)
}

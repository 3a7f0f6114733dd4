package endpoint

import (
	"unicode"
	"unicode/utf8"
)

// Tokens estimates how many tokens a text is: within a fifth of what OpenAI's o200k
// vocabulary makes of English, Chinese and code, and rather too many than too few.
//
// It cuts where tokenizers cut, at changes between words, numbers, signs and space, and
// knows how many tokens such a piece has on average. One pass, no tables.
func Tokens(text string) int64 {
	hundredths := int64(0)
	for at := 0; at < len(text); {
		kind, n, runes := piece(text[at:])
		at += n
		hundredths += cost(kind, n, runes)
	}
	return (hundredths + 99) / 100
}

// pieceKind is what a piece of a text is made of.
type pieceKind uint8

const (
	word      pieceKind = iota // ASCII letters, a capital only in front
	letters                    // of other alphabets
	ideograph                  // Han
	syllable                   // kana and Hangul
	digits
	space
	lines
	signs
	points // punctuation that is not ASCII
	others // of no alphabet that is known here, such as pictures
)

// piece is the first piece of a text: its kind and its length in bytes and runes.
func piece(text string) (kind pieceKind, n, runes int) {
	first, size := utf8.DecodeRuneInString(text)
	kind = kindOf(first)
	n, runes = size, 1
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		next := kindOf(r)
		if kind == space && next == lines { // space before a line's end is of the line
			kind = lines
		}
		if next != kind {
			break
		}
		if kind == word && r <= 'Z' && text[n-1] >= 'a' { // camelCase
			break
		}
		n, runes = n+size, runes+1
	}
	return kind, n, runes
}

func kindOf(r rune) pieceKind {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return word
	case r == ' ', r == '\t':
		return space
	case r == '\n', r == '\r':
		return lines
	case r >= '0' && r <= '9':
		return digits
	case r < utf8.RuneSelf:
		return signs
	case unicode.Is(unicode.Han, r):
		return ideograph
	case unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return syllable
	case unicode.IsLetter(r), unicode.IsMark(r):
		return letters
	case unicode.IsPunct(r):
		return points
	}
	return others
}

// cost is what a piece of a kind costs, in hundredths of a token.
func cost(kind pieceKind, n, runes int) int64 {
	long := func(free, each int) int64 { return int64(max(runes-free, 0) * each) }
	switch kind {
	case word:
		return 104 + long(7, 16)
	case letters:
		return 100 + long(3, 26)
	case ideograph:
		return int64(runes) * 80
	case syllable:
		return int64(runes) * 72
	case digits:
		return int64((runes+2)/3) * 100
	case space:
		if n == 1 {
			return 0 // goes with the word behind it
		}
		return 100
	case lines:
		return 100
	case signs:
		return 76 + long(1, 48)
	case points:
		return int64(runes) * 85
	}
	return int64(runes) * 200
}

package limit

import "bytes"

// plainValues is how many strings, numbers and words a JSON text may hold for each list
// and object that it may hold.
const plainValues = 8

// CheckJSON refuses a JSON text before it is decoded that has more than Items lists and
// objects, more than 8 times as many strings, numbers and words, or is nested deeper
// than Depth. A decoder makes room for each of them, however short it is written: "{},"
// can become an element of some hundred bytes. Whether text is JSON is not checked.
func (l Limit) CheckJSON(text []byte) error {
	lists, values, depth := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			lists++
			depth++
			if err := l.CheckItems(lists); err != nil {
				return err
			}
			if err := l.CheckDepth(depth); err != nil {
				return err
			}
		case '}', ']':
			depth--
		case ',', ':': // one value at most before each
			values++
			if err := l.check("values", int64(values), plainValues*int64(l.Items)); err != nil {
				return err
			}
		case '"':
			i = endOfString(text, i)
		}
	}
	return nil
}

// endOfString is where the closing quote of the string is that begins at i; the end of
// text where there is none.
func endOfString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		at := bytes.IndexAny(text[i:], `"\`)
		if at < 0 {
			return len(text)
		}
		if i += at; text[i] == '"' {
			return i
		}
		i++ // what is escaped
	}
	return len(text)
}

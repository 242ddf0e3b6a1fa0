package gpu

import (
	"encoding/xml"
	"errors"
	"strings"
)

// record is the text of an XML element by path below it, such as
// "ecc_mode/current_ecc", and those of its parts that there can be several of.
type record struct {
	text  map[string]string
	parts []record
}

// maxDepth is more than any version of the DTD nests below a GPU.
const maxDepth = 20

// partOf names the element in another that there can be several of.
func partOf(element string) string {
	switch element {
	case smiRoot:
		return "gpu"
	case "gpu":
		return "mig_device"
	}
	return ""
}

// decodeRecord reads the element whose start was read last, up to its end.
func decodeRecord(d *xml.Decoder, element string) (record, error) {
	r := record{text: map[string]string{}}
	var path []string
	var chars strings.Builder
	for {
		token, err := d.Token()
		if err != nil {
			return r, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			chars.Reset()
			if t.Name.Local != partOf(element) {
				if path = append(path, t.Name.Local); len(path) > maxDepth {
					return r, errors.New("elements are nested too deep")
				}
				continue
			}
			part, err := decodeRecord(d, t.Name.Local)
			if err != nil {
				return r, err
			}
			for _, a := range t.Attr {
				part.text["@"+a.Name.Local] = a.Value
			}
			r.parts = append(r.parts, part)
		case xml.CharData:
			chars.Write(t)
		case xml.EndElement:
			if len(path) == 0 {
				return r, nil
			}
			if text := strings.TrimSpace(chars.String()); text != "" {
				r.text[strings.Join(path, "/")] = text
			}
			chars.Reset()
			path = path[:len(path)-1]
		}
	}
}

// lookup returns the text at path. Where a whole group was not told, such as
// <remapped_rows>N/A</remapped_rows>, that is the text of all in it.
func (r record) lookup(path string) string {
	for {
		if text, ok := r.text[path]; ok {
			return text
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return ""
		}
		path = path[:i]
	}
}

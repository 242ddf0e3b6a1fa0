package gpu

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// smiLog is what "nvidia-smi -q -x" prints, in every version of its DTD (v11
// to v13, and drivers before that, which name none). Values are as printed.
type smiLog struct {
	// record's parts are the GPUs.
	record

	// source is the file that was run.
	source string
}

const smiRoot = "nvidia_smi_log"

// parseSMI reads one document. Text before and after it, such as warnings, is
// passed over. A document that is cut or malformed is an error that tells
// where, and gives nothing.
func parseSMI(text []byte) (smiLog, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	r, err := decodeSMI(d)
	if err != nil {
		var syntax *xml.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		case errors.As(err, &syntax):
			err = errors.New(syntax.Msg) // without the line, which is told
		}
		line, column := d.InputPos()
		return smiLog{}, fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	return smiLog{record: r}, nil
}

func decodeSMI(d *xml.Decoder) (record, error) {
	for {
		token, err := d.Token()
		if err != nil {
			return record{}, err
		}
		t, ok := token.(xml.StartElement)
		switch {
		case !ok:
			continue
		case t.Name.Local != smiRoot:
			return record{}, fmt.Errorf("<%s> in place of <%s>", t.Name.Local, smiRoot)
		}
		return decodeRecord(d, smiRoot)
	}
}

// addressOf returns a GPU's PCI address as sysfs writes it, or "" where
// nvidia-smi told none. nvidia-smi writes eight digits of domain, in capitals.
func addressOf(gpu record) string {
	for _, path := range []string{"pci/pci_bus_id", "@id"} {
		domain, rest, ok := strings.Cut(strings.TrimSpace(gpu.text[path]), ":")
		n, err := strconv.ParseUint(domain, 16, 32)
		if ok && err == nil {
			return fmt.Sprintf("%04x:%s", n, strings.ToLower(rest))
		}
	}
	return ""
}

// tellsOf reports whether the GPU at that address is among those told of.
func (l smiLog) tellsOf(address string) bool {
	for _, gpu := range l.parts {
		if addressOf(gpu) == address {
			return true
		}
	}
	return false
}

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
	Driver, CUDA, Attached string
	GPUs                   []smiGPU
	// source is the file that was run.
	source string
}

type smiGPU struct {
	ID           string `xml:"id,attr"`
	Product      string `xml:"product_name"`
	Architecture string `xml:"product_architecture"`
	UUID         string `xml:"uuid"`
	VBIOS        string `xml:"vbios_version"`
	BusID        string `xml:"pci>pci_bus_id"`
	MemoryTotal  string `xml:"fb_memory_usage>total"`
	ECC          string `xml:"ecc_mode>current_ecc"`
	MIG          string `xml:"mig_mode>current_mig"`
	Persistence  string `xml:"persistence_mode"`
}

const smiRoot = "nvidia_smi_log"

// parseSMI reads one document. Text before and after it, such as warnings, is
// passed over. A document that is cut or malformed is an error that tells
// where, and gives nothing.
func parseSMI(text []byte) (smiLog, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	log, err := decodeSMI(d)
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
	return log, nil
}

func decodeSMI(d *xml.Decoder) (smiLog, error) {
	var log smiLog
	inRoot := false
	for {
		t, err := d.Token()
		if err != nil {
			return log, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if !inRoot {
				if t.Name.Local != smiRoot {
					return log, fmt.Errorf("<%s> in place of <%s>", t.Name.Local, smiRoot)
				}
				inRoot = true
				continue
			}
			if err := log.element(d, t); err != nil {
				return log, err
			}
		case xml.EndElement:
			return log, nil // elements inside were read whole
		}
	}
}

func (l *smiLog) element(d *xml.Decoder, t xml.StartElement) error {
	switch t.Name.Local {
	case "driver_version":
		return d.DecodeElement(&l.Driver, &t)
	case "cuda_version":
		return d.DecodeElement(&l.CUDA, &t)
	case "attached_gpus":
		return d.DecodeElement(&l.Attached, &t)
	case "gpu":
		var g smiGPU
		if err := d.DecodeElement(&g, &t); err != nil {
			return err
		}
		l.GPUs = append(l.GPUs, g)
		return nil
	}
	return d.Skip()
}

// address returns the PCI address as sysfs writes it, or "" where nvidia-smi
// told none. nvidia-smi writes eight digits of domain, in capitals.
func (g smiGPU) address() string {
	for _, s := range []string{g.BusID, g.ID} {
		domain, rest, ok := strings.Cut(strings.TrimSpace(s), ":")
		n, err := strconv.ParseUint(domain, 16, 32)
		if ok && err == nil {
			return fmt.Sprintf("%04x:%s", n, strings.ToLower(rest))
		}
	}
	return ""
}

// sense tells what a printed value means.
type sense int

const (
	isValue sense = iota
	// isAbsent: the GPU or the driver does not have it.
	isAbsent
	// isUnreadable: the driver did not tell.
	isUnreadable
)

// judge returns the bare value and what it means. nvidia-smi writes errors
// (nvmlErrorString's) in brackets, and some without.
func judge(printed string) (string, sense) {
	v := strings.TrimSpace(printed)
	bare, opened := strings.CutPrefix(v, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	switch strings.ToLower(bare) {
	case "", "n/a", "not supported", "requested functionality has been deprecated":
		return "", isAbsent
	case "err!", "error", "unknown", "unknown error", "not found", "function not found", "gpu is lost",
		"gpu requires reset", "insufficient permissions", "no permission", "timeout":
		return bare, isUnreadable
	}
	if opened && closed {
		return bare, isUnreadable
	}
	return v, isValue
}

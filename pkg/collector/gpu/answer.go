package gpu

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// What is kept of what a child prints. Eight GPUs make half a megabyte of XML.
const (
	maxOutput = 16 << 20
	maxErrors = 64 << 10
)

// termGrace is how long a child that was asked to end has before it is killed.
const termGrace = 300 * time.Millisecond

// answer is how a child ended.
type answer struct {
	// startErr tells why nvidia-smi could not be started; the rest is empty.
	startErr error
	// hung: it did not end within took, and was left behind.
	hung bool
	took time.Duration

	out, errs []byte
	// code is the exit code; -1 where a signal ended it.
	code   int
	signal string
	// flooded: it printed more than maxOutput.
	flooded bool
}

// ending tells in words how the child ended, or "" for code 0. The codes are
// those of nvidia-smi(1), RETURN VALUE; 126 and 127 a loader's or shell's.
func (a answer) ending() string {
	if a.flooded {
		return fmt.Sprintf("printed more than %d MiB", maxOutput>>20)
	}
	if a.signal != "" {
		return "was ended by signal: " + a.signal
	}
	meaning := map[int]string{
		2:   "an argument is invalid",
		3:   "the operation is not available",
		4:   "no permission",
		6:   "a query was unsuccessful",
		8:   "external power cables are not attached",
		9:   "the NVIDIA driver is not loaded",
		10:  "an interrupt issue with a GPU",
		12:  "the NVML library cannot be found or loaded",
		13:  "the NVML library lacks a function",
		14:  "an infoROM is corrupted",
		15:  "a GPU has fallen off the bus or cannot be reached",
		126: "it cannot be executed",
		127: "a library that it needs is missing",
		255: "another error or an internal driver error",
	}[a.code]
	switch {
	case a.code == 0:
		return ""
	case meaning == "":
		return fmt.Sprintf("ended with code %d", a.code)
	}
	return fmt.Sprintf("ended with code %d (%s)", a.code, meaning)
}

// otherMayAnswer tells an end that says more of this nvidia-smi than of the
// driver: another one, with its own libraries, may answer.
func (a answer) otherMayAnswer() bool {
	switch a.code {
	case 9, 12, 13, 126, 127:
		return true
	}
	return false
}

// firstLine is what it said first, on standard error or else output.
func (a answer) firstLine() string {
	for _, b := range [][]byte{a.errs, a.out} {
		for line := range strings.Lines(string(b[:min(len(b), maxErrors)])) {
			if line = strings.TrimSpace(line); line != "" {
				return line
			}
		}
	}
	return "no message"
}

// bounded keeps the first max bytes written to it.
type bounded struct {
	buf  bytes.Buffer
	max  int
	over bool
}

// Write takes all and keeps what fits, so that the writer goes on.
func (b *bounded) Write(p []byte) (int, error) {
	fits := min(len(p), b.max-b.buf.Len())
	b.over = b.over || fits < len(p)
	b.buf.Write(p[:fits])
	return len(p), nil
}

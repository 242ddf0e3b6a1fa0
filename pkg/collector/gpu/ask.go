package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/aicr/pkg/collector/host"
)

// reply is what came of asking the driver.
type reply struct {
	log   smiLog
	state string
	// reason tells why the driver did not answer; where it did, a reason is a
	// warning.
	reason string
}

// lateness is how long after its end a caller waits for an answer that is on
// its way. The runner waits longer.
const lateness = 100 * time.Millisecond

// askInTime asks, and gives up soon after ctx ended, even where looking for
// nvidia-smi or starting it hangs in the kernel.
func (c Collector) askInTime(ctx context.Context, root *host.Root) reply {
	answer := make(chan reply, 1) // whoever answers too late can end
	go func() { answer <- c.ask(ctx, root) }()
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
	}
	late := time.NewTimer(lateness)
	defer late.Stop()
	select {
	case r := <-answer:
		return r
	case <-late.C:
		return reply{state: DriverNotAnswering, reason: "driver not answering: nvidia-smi could not be started in time"}
	}
}

const notFound = "nvidia-smi not found: GPUs are known from the PCI bus alone"

// ask runs the first nvidia-smi that can tell something.
func (c Collector) ask(ctx context.Context, root *host.Root) reply {
	r := reply{state: DriverNotAsked, reason: notFound}
	if !c.view.Files {
		r.reason += "; run privileged, or with --runtime-class nvidia, to ask their driver"
	}
	for _, p := range places(c.view, c.hint, c.path) {
		if !p.exists(root) {
			continue
		}
		a := runChild(ctx, p)
		switch {
		case a.startErr != nil && r.state == DriverNotAsked:
			r.reason = fmt.Sprintf("nvidia-smi cannot be started: %s: %v", p.name(), a.startErr)
			continue
		case a.startErr != nil:
			continue // what another said tells more
		case a.hung:
			return reply{state: DriverNotAnswering, reason: fmt.Sprintf("driver not answering: %s gave no answer within %v", p.name(), a.took)}
		}
		r = a.reply(p)
		if r.state == DriverAnswering || !a.otherMayAnswer() {
			break
		}
	}
	return r
}

// reply judges what the child printed and how it ended.
func (a answer) reply(p place) reply {
	log, err := parseSMI(a.out)
	switch {
	case err == nil && len(log.parts) > 0:
		log.source = p.name()
		return reply{log: log, state: DriverAnswering, reason: a.ending()}
	case err == nil:
		err = fmt.Errorf("%s told of no GPU", p.name())
	case a.code == 0 && !a.flooded:
		err = fmt.Errorf("%s told no valid XML: %w", p.name(), err)
	default:
		err = fmt.Errorf("%s %s: %s", p.name(), a.ending(), a.firstLine())
	}
	return reply{state: DriverNotAnswering, reason: fmt.Sprintf("driver not answering: %v", err)}
}

package runid

import (
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

var form = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[0-9a-f]{16}$`)

func TestC1_RunIDHasItsFormAndFitsAnyName(t *testing.T) {
	id := Generate()
	if !form.MatchString(id) || len(id) != 32 || Length != 32 {
		t.Errorf("%q of %d characters, Length %d", id, len(id), Length)
	}
	if msgs := append(validation.IsDNS1123Label(id), validation.IsValidLabelValue(id)...); len(msgs) > 0 {
		t.Errorf("%q: %v", id, msgs)
	}
}

func TestC1_RunIDTellsTheTimeInUTCWhateverTheZone(t *testing.T) {
	old := time.Local
	time.Local = time.FixedZone("east", 5*3600)
	defer func() { time.Local = old }()
	before := time.Now().UTC().Truncate(time.Second)
	id := Generate()
	at, err := time.Parse(timeLayout, id[:len(timeLayout)])
	if err != nil {
		t.Fatal(err)
	}
	if at.Before(before) || at.After(time.Now().UTC()) {
		t.Errorf("%q was made between %s and now", id, before)
	}
}

func TestC1_RunIDsDifferAlsoWhenMadeAtOnce(t *testing.T) {
	const n = 1000
	ids := make([]string, n)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { ids[i] = Generate() })
	}
	wg.Wait()
	slices.Sort(ids)
	if got := len(slices.Compact(ids)); got != n {
		t.Errorf("%d different run IDs of %d", got, n)
	}
}

package redact_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/NVIDIA/aicr/pkg/collector/redact"
)

func TestValueTakesOutWhatLooksLikeASecret(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"console", "ttyS0,115200", "ttyS0,115200"},
		{"rd.iscsi.password", "hunter2", redact.Marker},
		{"DB_PASS", "hunter2", redact.Marker},
		{"adminPassword", "hunter2", redact.Marker},
		{"apiKey", "hunter2", redact.Marker},
		{"tailscale.authkey", "hunter2", redact.Marker},
		{"k3s.token", "hunter2", redact.Marker},
		{"systemd.set_credential", "passwd.root:hunter2", redact.Marker},
		{"token", "", ""},
		{"bypass", "on", "on"},
		{"ima_keyring_size", "5", "5"},
		{"mitigations", "auto,nosmt", "auto,nosmt"},
		{"root", "UUID=9a1b-22", "UUID=9a1b-22"},
		{"inst.ks", "https://me:hunter2@host/ks.cfg", "https://" + redact.Marker + "@host/ks.cfg"},
		{"inst.ks", "https://me:hunt@er2@host/ks.cfg", "https://" + redact.Marker + "@host/ks.cfg"},
		{"inst.ks", "https://host/ks?arch=arm64&token=hunter2", "https://host/ks?arch=arm64&token=" + redact.Marker},
		{"netroot", "iscsi:me:hunter2@10.0.0.1::3260:1:iqn.x", redact.Marker + "@10.0.0.1::3260:1:iqn.x"},
		{"image", "example.com/pause:3.9@sha256:0123", "example.com/pause:3.9@sha256:0123"},
		{"image", "me:hunter2@pause:3.9@sha256:0123", redact.Marker + "@pause:3.9@sha256:0123"},
		{"systemd.setenv", "GH_TOKEN=hunter2,x", "GH_TOKEN=" + redact.Marker},
		{"systemd.setenv", "LANG=C", "LANG=C"},
		{"ignition.config.url", "https://h/c?se=2026&sig=hunter2", "https://h/c?se=2026&sig=" + redact.Marker},
		{"proxy-authorization", "Basic hunter2", redact.Marker},
		{"plain", "nvapi-" + strings.Repeat("x", 20), redact.Marker},
		{"plain", "a,ghp_" + strings.Repeat("x", 36) + ",b", "a," + redact.Marker + ",b"},
		{"plain", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x-y_z", redact.Marker},
		{"systemd.run", "agentd --token hunter2 --listen :80", "agentd --token " + redact.Marker + " --listen :80"},
		{"systemd.run", "curl -H 'Authorization: Bearer hunter2' http://h/", "curl -H 'Authorization: " + redact.Marker + "' http://h/"},
		{"systemd.run", "curl -H 'x: bearer hunter2'", "curl -H 'x: bearer " + redact.Marker + "'"},
		{"dyndbg", "file drivers/usb/* +p", "file drivers/usb/* +p"},
		{"design", "on", "on"},
		{"plain", "hf_short", "hf_short"},
	} {
		if got := redact.Value(c.name, c.value); got != c.want {
			t.Errorf("Value(%q, %q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

func TestArgsRedactsAFlagsNextArgument(t *testing.T) {
	args := []string{"agentd", "--token", "hunter2", "--listen", ":80", "--password=hunter2", "--use-token", "--v", "2", "http://u:hunter2@h/", "http://u:hunter2@h/?a=b"}
	want := []string{"agentd", "--token", redact.Marker, "--listen", ":80", "--password=" + redact.Marker, "--use-token", "--v", "2", "http://" + redact.Marker + "@h/", "http://" + redact.Marker + "@h/?a=b"}
	if diff := cmp.Diff(want, redact.Args(args)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if args[2] != "hunter2" {
		t.Error("the arguments given were changed")
	}
}

func TestImageLosesItsUserAndKeepsItsDigest(t *testing.T) {
	for ref, want := range map[string]string{
		"nginx":                                               "nginx",
		"example.com:5000/a/nginx:1.2":                        "example.com:5000/a/nginx:1.2",
		"nginx:1.2@sha256:0123":                               "nginx:1.2@sha256:0123",
		"me:hunter2@example.com/nginx:1.2":                    redact.Marker + "@example.com/nginx:1.2",
		"hunter2@example.com/nginx":                           redact.Marker + "@example.com/nginx",
		"https://me:hun/ter2@example.com/nginx:1@sha256:0123": redact.Marker + "@example.com/nginx:1@sha256:0123",
		"me:hunter2@nginx:1@sha256:0123":                      redact.Marker + "@nginx:1@sha256:0123",
	} {
		if got := redact.Image(ref); got != want {
			t.Errorf("Image(%q) = %q, want %q", ref, got, want)
		}
	}
}

func FuzzValueHidesASecretWhereverItStands(f *testing.F) {
	f.Add("inst.ks", "https://host/a", "b")
	f.Add("x", "", "a,b")
	f.Fuzz(func(t *testing.T, name, before, after string) {
		const secret = "hunter2"
		for _, v := range []string{
			redact.Value(name+".password", before+secret+after),
			redact.Value(name, "https://me:"+secret+"@host/"+before),
			redact.Value(name, "https://host/?a=b&api_key="+secret),
		} {
			if strings.Contains(strings.NewReplacer(before, "", after, "").Replace(v), secret) && !strings.Contains(before+after, secret) {
				t.Errorf("%q shows the secret", v)
			}
			if again := redact.Value(name, v); again != v && !strings.Contains(again, redact.Marker) {
				t.Errorf("%q became %q the second time", v, again)
			}
		}
	})
}

package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/study"
)

func TestSharedTexts(t *testing.T) {
	m := Manifest{
		Host: hostinfo.Host{Hostname: "box.example.org"}, Dir: "/srv/my work",
		Study:   study.Study{Kernels: []string{"/boot/old/vmlinuz", "/boot/vmlinuz"}},
		Cells:   []study.Cell{{ID: "runc=/opt/a/runc/start", Target: "runc=/opt/a/runc"}, {ID: "runc=/opt/b/runc@bridge/start", Target: "runc=/opt/b/runc@bridge"}, {ID: "kvm/start", Target: "kvm"}},
		Command: []string{"tare", "run", "--peer=node2:7000", "--rootfs=/srv/a b/root", "--", "--peer=x:1"},
		Peer:    &Peer{Here: "192.0.2.5", There: "192.0.2.7", Host: hostinfo.Host{Hostname: "kvm"}},
		Guest:   &driver.Guest{Kernel: "/boot/vmlinuz"},
	}
	h := newHiding(m, "machine 1", &programNames{})
	for text, want := range map[string]string{
		"runc=/opt/a/runc/start, runc=/opt/b/runc@bridge/start~aa": "runc=runc/start, runc=runc-2@bridge/start~aa",
		"--on=runc=/opt/a/runc,runc=/opt/b/runc":                   "--on=runc=runc,runc=runc-2",
		"qemu/microvm=/boot/vmlinuz: no /boot/old/vmlinuz":         "qemu/microvm=vmlinuz-2: no vmlinuz",
		"/opt/a/runc-new/x and /opt/a/runc.":                       "x and runc.",
		"open /home/alice/x.conf: permission denied":               "open x.conf: permission denied",
		"--state=/home/alice -o/home/alice/x /var/home/bob/":       "--state=~ -ox ~",
		`lowerdir=/a/b:/c/d,upperdir="/e/f" ../g/h ~/i/j`:          `lowerdir=b:d,upperdir="f" h j`,
		"/srv/a b/root/bin/x, /srv/my work/y.yaml":                 "x, y.yaml",
		"/srv/my work-https://a/b":                                 "my work-https:b",
		"unix:///run/user/1000/docker.sock":                        "unix:docker.sock",
		"ssh://alice@node3:22/home/alice/tare said no":             "the other machine said no",
		"https://example.org/a/b ran /init of runc/systemd, 1/s":   "https://example.org/a/b ran /init of runc/systemd, 1/s",
		`sed "s/^0//" 04/01/2014 ./x / and/or`:                     `sed "s/^0//" 04/01/2014 ./x / and/or`,
		"192.0.2.5:80 to root@192.0.2.7, not 192.0.2.77":           "machine 1:80 to the other machine, not 192.0.2.77",
		"alice@node2.lan: denied by box, box.example.org and kvm.": "the other machine: denied by machine 1, machine 1 and kvm.",
		"node22 and mailbox are others, kvm is a word of the run":  "node22 and mailbox are others, kvm is a word of the run",
	} {
		if got := h.said(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if got := h.target("runc=runc"); got != "runc=/opt/a/runc" {
		t.Errorf("the target on the disk is %q", got)
	}
}

// A foreign manifest may name any number of paths, each the beginning of the next or all
// with one last part, and a host name of any length.
func TestSharedTextsOfManyPaths(t *testing.T) {
	var kernels []string
	for i := range 1000 {
		kernels = append(kernels, "/"+strings.Repeat("a", i+1), fmt.Sprintf("/%d/k", i))
	}
	m := Manifest{Host: hostinfo.Host{Hostname: strings.Repeat("x", 5<<20)}, Study: study.Study{Kernels: kernels}}
	h := newHiding(m, "machine 1", &programNames{})
	for text, want := range map[string]string{
		kernels[600] + "@x, " + kernels[601]:         h.programs[kernels[600]] + "@x, k-301",
		kernels[600] + "b/c":                         "c",
		"/0/k /1/k /999/k/x /9999/k /0/ka /aab /aa~": "k k-2 k-1000/x k ka /aab aa~",
	} {
		if got := h.text(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

package kconfig_test

import (
	"bytes"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/limit"
)

// FuzzParse: no configuration makes the parser panic or take more memory than its limit.
func FuzzParse(f *testing.F) {
	f.Add([]byte("#\n# Linux/x86 6.1.0 Kernel Configuration\n#\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if over := limit.Kconfig.CheckAlloc(func() { _, _ = kconfig.Parse(bytes.NewReader(data)) }); over != nil {
			t.Fatal(over)
		}
	})
}

// FuzzNeed: no need makes the parser panic or take more memory than its limit, and one
// that it accepts names what it wants.
func FuzzNeed(f *testing.F) {
	f.Add([]byte("id: a\ntitle: b\nsource: c\nsymbols: [{symbol: CONFIG_X, why: y}]\n"))
	f.Add([]byte("id: a\ntitle: b\nincludes: [x]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n *kconfig.Need
		var err error
		if over := limit.Need.CheckAlloc(func() { n, err = kconfig.ParseNeed(data) }); over != nil {
			t.Fatal(over)
		}
		if err == nil && n.ID == "" {
			t.Fatal("a need without an id")
		}
	})
}

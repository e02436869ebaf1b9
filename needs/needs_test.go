package needs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/needs"
)

// Each built-in need is sound, and says the id of its file.
func TestBuiltIn(t *testing.T) {
	for _, id := range needs.IDs() {
		n, err := needs.Load(id)
		if err != nil {
			t.Error(err)
			continue
		}
		if n.ID != id {
			t.Errorf("%s.yaml says it is %q", id, n.ID)
		}
		if _, err := kconfig.Collect([]string{id}, needs.Load); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// mobys are the symbols that moby's contrib/check-config.sh asks for, of commit
// b985e2313a, apart from LEGACY_VSYSCALL_NATIVE and LEGACY_VSYSCALL_NONE, which
// it warns of.
const mobys = `NAMESPACES NET_NS PID_NS IPC_NS UTS_NS CGROUPS CGROUP_CPUACCT CGROUP_DEVICE CGROUP_FREEZER CGROUP_SCHED
CPUSETS MEMCG KEYS VETH BRIDGE BRIDGE_NETFILTER IP_NF_FILTER IP_NF_MANGLE IP_NF_TARGET_MASQUERADE IP6_NF_FILTER
IP6_NF_MANGLE IP6_NF_TARGET_MASQUERADE NETFILTER_XT_MATCH_ADDRTYPE NETFILTER_XT_MATCH_CONNTRACK
NETFILTER_XT_MATCH_IPVS NETFILTER_XT_MARK IP_NF_RAW IP_NF_NAT NF_NAT IP6_NF_RAW IP6_NF_NAT POSIX_MQUEUE
DEVPTS_MULTIPLE_INSTANCES NF_NAT_IPV4 NF_NAT_NEEDED CGROUP_BPF USER_NS SECCOMP SECCOMP_FILTER CGROUP_PIDS MEMCG_SWAP
LEGACY_VSYSCALL_EMULATE MEMCG_KMEM RESOURCE_COUNTERS NETPRIO_CGROUP CGROUP_NET_PRIO IOSCHED_CFQ
CFQ_GROUP_IOSCHED BLK_CGROUP BLK_DEV_THROTTLING CGROUP_PERF CGROUP_HUGETLB NET_CLS_CGROUP CFS_BANDWIDTH
FAIR_GROUP_SCHED IP_NF_TARGET_REDIRECT IP_SCTP IP_VS IP_VS_NFCT IP_VS_PROTO_TCP IP_VS_PROTO_UDP IP_VS_RR
SECURITY_SELINUX SECURITY_APPARMOR NFT_CT NFT_FIB_IPV4 NFT_FIB_IPV6 NFT_FIB NFT_MASQ NFT_NAT NF_TABLES EXT3_FS
EXT3_FS_XATTR EXT3_FS_POSIX_ACL EXT3_FS_SECURITY EXT4_FS EXT4_FS_POSIX_ACL EXT4_FS_SECURITY VXLAN
BRIDGE_VLAN_FILTERING CRYPTO CRYPTO_AEAD CRYPTO_GCM CRYPTO_SEQIV CRYPTO_GHASH XFRM XFRM_USER XFRM_ALGO INET_ESP
NETFILTER_XT_MATCH_BPF INET_XFRM_MODE_TRANSPORT IPVLAN MACVLAN DUMMY NF_NAT_FTP NF_CONNTRACK_FTP NF_NAT_TFTP
NF_CONNTRACK_TFTP BTRFS_FS BTRFS_FS_POSIX_ACL OVERLAY_FS`

func TestSupersetOfMobys(t *testing.T) {
	wants, err := kconfig.Collect([]string{"docker-all"}, needs.Load)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, w := range wants {
		have = append(append(have, w.Symbol), w.Or...)
	}
	for symbol := range strings.FieldsSeq(mobys) {
		if !slices.Contains(have, symbol) {
			t.Errorf("docker-all does not ask for %s", symbol)
		}
	}
}

func TestUnknown(t *testing.T) {
	if _, err := needs.Load("dokcer"); err == nil || !strings.Contains(err.Error(), `did you mean "docker"`) {
		t.Errorf("a misspelt need: %v", err)
	}
	if _, err := needs.Load("./gone.yaml"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

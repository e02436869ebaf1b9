package learn

// What stands in no Makefile: which symbol an argument of a system call asks for.

// space is a kind of namespace.
type space struct {
	flag         uint64
	name, symbol string
}

// spaces are those of include/uapi/linux/sched.h, with their symbols of init/Kconfig.
var spaces = []space{
	{0x00000080, "CLONE_NEWTIME", "TIME_NS"}, {0x00020000, "CLONE_NEWNS", "NAMESPACES"}, {0x02000000, "CLONE_NEWCGROUP", "CGROUPS"},
	{0x04000000, "CLONE_NEWUTS", "UTS_NS"}, {0x08000000, "CLONE_NEWIPC", "IPC_NS"}, {0x10000000, "CLONE_NEWUSER", "USER_NS"},
	{0x20000000, "CLONE_NEWPID", "PID_NS"}, {0x40000000, "CLONE_NEWNET", "NET_NS"},
}

// A protocol is a family of sockets, or one of netlink.
type protocol struct{ name, symbol string }

// families are those of include/linux/socket.h, with their symbols of net/*/Kconfig.
var families = map[int]protocol{
	1: {"AF_UNIX", "UNIX"}, 2: {"AF_INET", "INET"}, 10: {"AF_INET6", "IPV6"}, 15: {"AF_KEY", "NET_KEY"}, 16: {"AF_NETLINK", "NET"},
	17: {"AF_PACKET", "PACKET"}, 21: {"AF_RDS", "RDS"}, 28: {"AF_MPLS", "MPLS"}, 29: {"AF_CAN", "CAN"}, 30: {"AF_TIPC", "TIPC"}, 31: {"AF_BLUETOOTH", "BT"},
	38: {"AF_ALG", "CRYPTO_USER_API"}, 39: {"AF_NFC", "NFC"}, 40: {"AF_VSOCK", "VSOCKETS"}, 41: {"AF_KCM", "AF_KCM"}, 43: {"AF_SMC", "SMC"}, 44: {"AF_XDP", "XDP_SOCKETS"},
}

const netlinkFamily = 16

// netlinks are those of include/uapi/linux/netlink.h that have a symbol; the others
// come with NET.
var netlinks = map[int]protocol{
	4: {"NETLINK_SOCK_DIAG", "INET_DIAG"}, 6: {"NETLINK_XFRM", "XFRM_USER"}, 7: {"NETLINK_SELINUX", "SECURITY_SELINUX"}, 9: {"NETLINK_AUDIT", "AUDIT"},
	12: {"NETLINK_NETFILTER", "NETFILTER_NETLINK"}, 18: {"NETLINK_SCSITRANSPORT", "SCSI_NETLINK"}, 21: {"NETLINK_CRYPTO", "CRYPTO_USER"},
}

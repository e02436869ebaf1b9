package limit

// Sizes in the table.
const (
	kib = 1 << 10
	mib = 1 << 20
)

// The table: one row for each kind of foreign input. A limit is some ten times
// what real inputs need, so that an input which exceeds it is a mistake or an
// attack. A new decoder adds its row here, and to the list that TestTable checks.
var (
	// ImageDocument is an index, a manifest or a config of an image: JSON. Registries
	// accept manifests of 4 MiB (distribution-spec, "Pushing Manifests"). Items counts
	// the descriptors in one index, Depth indexes inside indexes.
	ImageDocument = Limit{Input: "image index, manifest or config", Bytes: 4 * mib, Items: 1024, Depth: 4, Alloc: 64 * mib}
	// ImageJSON is the text of such a document. Items counts lists and objects: a descriptor
	// has up to four, an image in the manifest of docker save three and one for each layer,
	// and the config one for each step of the image's history.
	ImageJSON = Limit{Input: "JSON of an image", Items: 16_384, Depth: 32, Alloc: 64 * mib}
	// ImageArchive is a tar of an image, or the tar of one of its layers. Items counts
	// files. Bytes are bounded by the free space of the disk that takes them.
	ImageArchive = Limit{Input: "image archive", Items: 4 << 20}
	// ImagePath is a name or a link's text in an image, and where it leads once links are
	// followed; Linux takes 4096 bytes. Items counts the names that are looked up, those of
	// links with them; Depth counts directories inside one another. ImagePaths are the
	// paths that unpacking one image keeps in memory.
	ImagePath  = Limit{Input: "path in an image", Bytes: 4 * kib, Items: 4096, Depth: 256}
	ImagePaths = Limit{Input: "list of an image's paths", Bytes: 256 * mib}
	// ImageLayers are the layers of one image; overlays of engines end at 128.
	ImageLayers = Limit{Input: "image", Items: 256}
	// PackageControl is one control file of a Debian package: its description, a script, a
	// list of its files, or one of its files of configuration.
	PackageControl = Limit{Input: "control file of a package", Bytes: 16 * mib}
	// Accounts is an image's /etc/passwd or /etc/group.
	Accounts = Limit{Input: "account file", Bytes: 1 * mib, Alloc: 32 * mib}
	// Program is the dynamic section of a program or a library, which is some hundreds of
	// bytes long. Items counts its names, and what a program and its libraries look up.
	Program = Limit{Input: "dynamic section of a program", Bytes: mib, Items: 1024, Alloc: 64 * mib}
	// CLibrary is a C library that is asked for its name; one has some 2 MiB.
	CLibrary = Limit{Input: "C library", Bytes: 32 * mib}
	// OwnProgram is a program or a file of the user's that is put into the workbench.
	OwnProgram = Limit{Input: "file for the workbench", Bytes: 64 * mib, Alloc: 256 * mib}
	// Symbols is a program whose functions are named in profiles; Bytes are those of the
	// file, of each section that it has packed, and of the names of all its sections.
	Symbols = Limit{Input: "program with symbols", Bytes: 512 * mib}
	// Study is the text of a study, Need that of a need of a kernel, in YAML. Items
	// counts words and signs, Depth nested lists and mappings.
	Study = Limit{Input: "study", Bytes: mib, Items: 20_000, Depth: 32, Alloc: 256 * mib}
	Need  = Limit{Input: "need", Bytes: mib, Items: 20_000, Depth: 8, Alloc: 256 * mib}
	// Kconfig is a kernel's configuration, after decompression; one has some 10,000
	// lines. ModuleInfo is the section .modinfo of a kernel's module.
	Kconfig    = Limit{Input: "kernel configuration", Bytes: 16 * mib, Items: 1 << 20, Alloc: 512 * mib}
	ModuleInfo = Limit{Input: "module's section .modinfo", Bytes: mib, Alloc: 64 * mib}
	// SSHKeys is a file with public keys; an engineer's team has some tens of them.
	SSHKeys = Limit{Input: "file with public SSH keys", Bytes: mib, Items: 4096, Alloc: 64 * mib}
	// BootLog is a dmesg, a console's log or a journal, after decompression; Items
	// counts lines. A boot writes less than a megabyte in some thousands of them.
	BootLog = Limit{Input: "boot log", Bytes: 64 * mib, Items: 500_000, Alloc: 1024 * mib}
	// RunManifest is the manifest of a run directory: JSON. A study has at most 10,000
	// cells before its twins, of some 300 bytes in two objects each. RunRecord is one
	// record: JSON. At most 4,096 instances have a value of each metric in it.
	RunManifest = Limit{Input: "manifest of a run", Bytes: 32 * mib, Items: 250_000, Depth: 64, Alloc: 1024 * mib}
	RunRecord   = Limit{Input: "record of a run", Bytes: 16 * mib, Items: 100_000, Depth: 64, Alloc: 256 * mib}
	// RunEnd is why a run ended before the last block of its plan.
	RunEnd = Limit{Input: "end of a run", Bytes: 64 << 10}
	// RunName is the name that a user gave a run. RunArchive is a run as an archive,
	// unpacked; Items counts files.
	RunName    = Limit{Input: "name of a run", Bytes: kib}
	RunArchive = Limit{Input: "archive of a run", Bytes: 4096 * mib, Items: 1 << 20}
	// Profile is the text of a profile that another program took; Items counts different
	// stacks, Depth the frames of one. A minute of a machine with a
	// hundred CPUs has some GiB of text and some ten thousand stacks.
	Profile = Limit{Input: "profile", Bytes: 16 << 30, Items: 250_000, Depth: 2048, Alloc: 2048 * mib}
	// ProfileNames are the stacks of an imported profile, and the names in it.
	ProfileNames = Limit{Input: "profile's list of stacks and names", Bytes: 512 * mib}
	// ProfileWaits are the waits of one profile, imported or kept, which take a KiB each; a
	// probe keeps 8,192. RunProfile is the profile of one trial as it is kept: JSON, read an
	// entry at a time. Items counts its stacks, and its samples. RunProfiles are those of
	// all trials as a report adds them up; Items counts stacks and samples, and eight for
	// each wait. Bytes are those of stacks and names.
	ProfileWaits = Limit{Input: "profile's list of waits", Items: 100_000}
	RunProfile   = Limit{Input: "kept profile", Bytes: 128 * mib, Items: 250_000, Depth: 2048, Alloc: 1024 * mib}
	RunProfiles  = Limit{Input: "sum of a run's profiles", Bytes: 512 * mib, Items: 2_000_000}
	// History is what runs found over time; Items counts lines.
	History = Limit{Input: "history", Bytes: 256 * mib, Items: 500_000}
	// FleetPlan is what a fleet is to do, FleetJobs what happened to its jobs; Items counts
	// lines.
	FleetPlan = Limit{Input: "plan of a fleet", Bytes: 16 * mib}
	FleetJobs = Limit{Input: "jobs of a fleet", Bytes: 256 * mib, Items: 1 << 20}
	// RunSide is a log, a profile or a series of a run, unpacked: a few KiB of gzip can
	// hold a GiB.
	RunSide = Limit{Input: "log, profile or series of a run", Bytes: 128 * mib}
	// RunSeries is a series once it is read; Items counts readings of containers. One of
	// tare watch takes some 200 bytes of RunSide. RunWatched are its different containers.
	RunSeries  = Limit{Input: "series of a run", Items: 1 << 20}
	RunWatched = Limit{Input: "list of a run's watched containers", Items: 20_000}
	// EngineAnswer is one answer of a cluster's API server, of at most 500 objects; Items
	// counts the objects of all answers to one question. JobPatch is a change to its jobs.
	EngineAnswer = Limit{Input: "answer of the API server", Bytes: 256 * mib, Items: 500_000, Alloc: 2048 * mib}
	JobPatch     = Limit{Input: "job patch", Bytes: mib, Items: 20_000, Depth: 32, Alloc: 256 * mib}
	// DaemonAnswer is one answer of a container engine's API; a list of 10,000 containers has
	// some 20 MiB. DaemonError is what an engine says of a payload's stream.
	DaemonAnswer = Limit{Input: "answer of a container engine", Bytes: 64 * mib, Alloc: 512 * mib}
	DaemonError  = Limit{Input: "error of a container engine", Bytes: 4 * kib}
	// MonitorLine is a line of QMP, and an answer of a monitor's other API. AgentFrame is a
	// frame of what runs in a guest (PIECE in helpers/init.c).
	MonitorLine = Limit{Input: "answer of a virtual machine's monitor", Bytes: mib, Alloc: 64 * mib}
	AgentFrame  = Limit{Input: "frame of a guest's agent", Bytes: 64 * kib, Alloc: mib}
	// ErrandText is what a script prints in a container host: the journal of a boot, or a
	// trace with the names of the kernel's functions. Items counts lines. GuestCode is
	// what QEMU tells of the code that a guest's kernel runs; Items counts blocks.
	ErrandText = Limit{Input: "output of a guest's script", Bytes: 64 * mib, Items: 1 << 20, Alloc: 1024 * mib}
	GuestCode  = Limit{Input: "list of a guest's code", Items: 1 << 20, Alloc: 256 * mib}
	// PayloadJSON is a payload's output that a number is read from; one of fio with tens of
	// jobs has some ten thousand lists and objects. Bytes is what is kept of an output.
	PayloadJSON = Limit{Input: "JSON output of a payload", Bytes: 16 * mib, Items: 250_000, Depth: 64, Alloc: 512 * mib}
	// Console is what is kept of a guest's console, its end.
	Console = Limit{Input: "console of a guest", Bytes: 256 * kib}
	// PeerMessage is one message of another machine's tare; the longest holds the facts of
	// that machine. PeerEnds are the far ends that one peer may have at once.
	PeerMessage = Limit{Input: "message of the other machine", Bytes: 256 * kib, Items: 4096, Depth: 8, Alloc: 16 * mib}
	PeerEnds    = Limit{Input: "list of the peer's far ends", Items: 256}
	// SessionProof is what a session says of itself.
	SessionProof = Limit{Input: "proof of a session", Bytes: 64 * kib}
)

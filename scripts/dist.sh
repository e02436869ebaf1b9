#!/usr/bin/env bash
# Builds tare for every architecture, from any that has the C compiler (the ziglang
# wheel is for x86_64 and aarch64 on Linux), into dist/:
#
#   scripts/dist.sh          archives, Debian packages, an OCI image, bills of materials,
#                            their provenance and SHA256SUMS
#   scripts/dist.sh check    builds a second time, from a copy of the tree in
#                            another directory and with empty caches, and
#                            compares: the bits must be the same
#   scripts/dist.sh sign     signs SHA256SUMS with the SSH key $SIGN_KEY
#
# $ARCHITECTURES limits the list (default: amd64 arm64 loong64 mips64le riscv64).
# $ZIG is the C compiler, as make sets it. Needs go and GNU tar.
set -euo pipefail
cd "$(dirname "$0")/.."

architectures=${ARCHITECTURES:-amd64 arm64 loong64 mips64le riscv64}
zig=${ZIG:?ZIG names the C compiler; make dist sets it}

fail() {
	printf 'dist: %s\n' "$*" >&2
	exit 1
}

# The copy that is checked has no repository: it is told what it is.
version=${DIST_VERSION:-$(git describe --tags --always --dirty)}
commit=${DIST_COMMIT:-$(git rev-parse HEAD)}
# The time that pages and packages bear is the commit's.
export SOURCE_DATE_EPOCH=${DIST_TIME:-$(git log -1 --format=%ct)}

archive() { # ARCHITECTURE: dist/tare_VERSION_linux_ARCHITECTURE.tar.gz and its bill
	local name=tare_${version}_linux_$1
	local into=$work/$name
	mkdir -p "$into"
	GOOS=linux GOARCH=$1 CGO_ENABLED=0 go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X main.version=$version -X github.com/tarelab/tare/internal/cli.commit=$commit" \
		-o "$into/tare" ./cmd/tare
	mkdir "$into/completions"
	cp LICENSE README.md "$into/"
	cp -r "$work/files/man" "$into/"
	cp "$work/files/"{tare.bash,_tare,tare.fish} "$into/completions/"
	chmod -R u=rwX,go=rX "$into"
	tar -C "$work" --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9 -n >"dist/$name.tar.gz"
	"$work/sbom" -binary "$into/tare" -version "$version" -zig "$("$zig" version)" -musl "$musl" -lock web/package-lock.json >"dist/$name.cdx.json"
}

# documents makes what every package holds: manual pages, completions, a changelog.
documents() {
	mkdir -p "$work/files/man"
	go run ./scripts/man "$version" "$work/files/man"
	gzip -9 -n "$work/files/man/"*.1
	touch -d "@$SOURCE_DATE_EPOCH" "$work/files/man/"* # nfpm takes the times of a tree's files from the disk
	go build -o "$work/here" ./cmd/tare
	"$work/here" completion bash >"$work/files/tare.bash"
	"$work/here" completion zsh >"$work/files/_tare"
	"$work/here" completion fish >"$work/files/tare.fish"
	printf 'tare (%s-1) unstable; urgency=medium\n\n  * As CHANGELOG.md of the source says.\n\n -- The tare developers <tare@users.noreply.github.com>  %s\n' \
		"$(debian_version)" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9 -n >"$work/files/changelog.gz"
}

# A version of Debian's begins with a digit; a commit without a tag comes before any release.
debian_version() {
	case $version in
	v[0-9]*) tr - + <<<"${version#v}" ;;
	*) echo "0~git$SOURCE_DATE_EPOCH.${version//-/+}" ;;
	esac
}

deb() { # ARCHITECTURE: dist/tare_VERSION_ARCHITECTURE.deb
	local architecture=${1/mips64le/mips64el}
	cp "$work/tare_${version}_linux_$1/tare" "$work/files/tare"
	FILES=$work/files DEB_ARCH=$architecture DEB_VERSION=$(debian_version) \
		"$work/deb" packaging/nfpm.yaml "dist/tare_${version}_$architecture.deb"
}

# image makes dist/tare_VERSION.oci.tar: an OCI layout with an image for each architecture,
# as podman load, skopeo copy oci-archive:FILE and docker load take it.
image() {
	local folders=() architecture
	for architecture in $architectures; do
		folders+=("$architecture=$work/tare_${version}_linux_$architecture")
	done
	go run ./scripts/oci "$work/oci" "$version" "$commit" "${folders[@]}"
	chmod -R u=rwX,go=rX "$work/oci"
	tar -C "$work/oci" --sort=name --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "dist/tare_$version.oci.tar" blobs index.json oci-layout
}

build() {
	for file in LICENSE README.md; do [ -r "$file" ] || fail "$file is missing: it is part of every archive"; done
	musl=$(sed -n 's/^#define VERSION "\(.*\)"$/\1/p' "$(dirname "$zig")/lib/libc/musl/src/internal/version.h")
	[ -n "$musl" ] || fail "$zig does not tell the version of its C library"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	rm -rf dist
	mkdir dist
	go build -o "$work/sbom" ./scripts/sbom
	go -C packaging build -o "$work/deb" .
	scripts/generated.sh current
	documents
	for architecture in $architectures; do
		archive "$architecture"
		deb "$architecture"
	done
	image
	(cd dist && sha256sum -- *.tar.gz *.deb *.oci.tar *.cdx.json >SHA256SUMS)
	provenance >dist/provenance.json
	(cd dist && sha256sum -- provenance.json >>SHA256SUMS)
	cat dist/SHA256SUMS
}

# provenance prints what was built, of what and by what: an in-toto statement with the
# predicate of SLSA 1.0. It holds no time and no machine: the same sources give the same.
provenance() {
	local source=https://github.com/tarelab/tare subjects architecture_list
	subjects=$(sed -E 's/^([0-9a-f]{64})  (.*)$/{"name":"\2","digest":{"sha256":"\1"}}/' dist/SHA256SUMS | paste -sd,)
	architecture_list=$(printf '"%s"\n' $architectures | paste -sd,)
	cat <<-EOF
		{"_type":"https://in-toto.io/Statement/v1",
		"subject":[$subjects],
		"predicateType":"https://slsa.dev/provenance/v1",
		"predicate":{
		"buildDefinition":{"buildType":"$source/blob/main/scripts/dist.sh",
		"externalParameters":{"version":"$version","architectures":[$architecture_list]},
		"resolvedDependencies":[{"uri":"git+$source","digest":{"gitCommit":"$commit"}},{"uri":"pkg:generic/go@$(go env GOVERSION)"},{"uri":"pkg:pypi/ziglang@$("$zig" version)"}]},
		"runDetails":{"builder":{"id":"$source/blob/main/scripts/dist.sh"}}}}
	EOF
}

sign() {
	[ -r "${SIGN_KEY:-}" ] || fail "SIGN_KEY=${SIGN_KEY:-} is not a file that can be read: name an SSH private key"
	(cd dist && sha256sum --quiet --check SHA256SUMS >&2) || fail "dist/ is not what SHA256SUMS says: build it again"
	rm -f dist/SHA256SUMS.sig
	ssh-keygen -Y sign -q -f "$SIGN_KEY" -n tare-dist dist/SHA256SUMS >&2 || fail "ssh-keygen could not sign with $SIGN_KEY"
	printf 'tare-dist %s\n' "$(ssh-keygen -y -f "$SIGN_KEY")" >dist/allowed_signers
	ssh-keygen -Y verify -f dist/allowed_signers -I tare-dist -n tare-dist -s dist/SHA256SUMS.sig <dist/SHA256SUMS
}

check() {
	[ -r dist/SHA256SUMS ] || fail "there is no dist/ to compare with: run scripts/dist.sh first"
	scripts/generated.sh check
	copy=$(mktemp -d)
	trap 'chmod -R u+w "$copy"; rm -rf "$copy"' EXIT
	mkdir -p "$copy/somewhere/else"
	git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do
		[ ! -e "$file" ] || printf '%s\0' "$file" # a file that is deleted and not yet committed
	done | tar --null --files-from=- -cf - | tar -x -C "$copy/somewhere/else"
	DIST_VERSION=$version DIST_COMMIT=$commit DIST_TIME=$SOURCE_DATE_EPOCH ZIG=$zig ARCHITECTURES=$architectures \
		GOCACHE=$copy/go-cache \
		"$copy/somewhere/else/scripts/dist.sh" >/dev/null
	diff dist/SHA256SUMS "$copy/somewhere/else/dist/SHA256SUMS" >&2 || fail "the second build differs from the first (< dist/, > the copy)"
	echo "dist: the same $(wc -l <dist/SHA256SUMS) digests, built in another directory"
}

case "${1:-build}" in
build) build ;;
check) check ;;
sign) sign ;;
*)
	sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

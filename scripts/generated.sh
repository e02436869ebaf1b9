#!/usr/bin/env bash
# What is generated and yet in version control, so that `go install` and `go build` need
# Go alone: the helper programs of every architecture and the report's page. Their digests
# and those of their sources are in scripts/generated.sha256.
#
#   scripts/generated.sh current  fails where a source or a generated file has changed since
#   scripts/generated.sh make     builds all of it and writes the digests
#   scripts/generated.sh check    builds all of it in another directory: the bits must be the same
#
# $ZIG is the C compiler, as make sets it. make and check need npm, too.
set -euo pipefail
cd "$(dirname "$0")/.."

outputs="helpers/bin internal/report/page/dist"

# digests prints what scripts/generated.sha256 holds, for the directory it runs in.
digests() {
	{
		find helpers \( -name '*.c' -o -name '*.h' \) ! -name '*_test.c'
		find web -name node_modules -prune -o -type f -print
		echo helpers/Makefile
		find $outputs -type f ! -name '*.tmp'
	} | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum --
}

build() {
	: "${ZIG:?ZIG names the C compiler; make generated sets it}"
	rm -rf $outputs
	make --no-print-directory --jobs="$(nproc)" -C helpers every
	make --no-print-directory -C web
}

check() {
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	mkdir -p "$copy/somewhere/else"
	git ls-files -z --cached --others --exclude-standard -- helpers web | xargs -0 tar -cf - | tar -x -C "$copy/somewhere/else"
	(cd "$copy/somewhere/else" && build >&2)
	for dir in $outputs; do
		diff -r "$dir" "$copy/somewhere/else/$dir" >&2 || {
			echo "generated: a build in another directory gives another $dir: run make generated, and commit what it changes" >&2
			exit 1
		}
	done
	echo "generated: $(find $outputs -type f | wc -l) files, built again in another directory: the same bits"
}

case "${1:-}" in
current)
	digests | diff scripts/generated.sha256 - >&2 || {
		echo "generated: these files (<, > now) have changed since: run make generated, and commit what it changes" >&2
		exit 1
	}
	;;
make)
	build
	digests >scripts/generated.sha256
	;;
check) check ;;
*)
	sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

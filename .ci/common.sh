# Sourced by every step: where things are, and the words that steps share.
#
#   CARGO_TARGET_DIR   build files; by default in the cache
#   VOR_CACHE          what is kept between runs (default ${XDG_CACHE_HOME:-$HOME/.cache}/vor)
#   VOR_CI_INSTALL=0   never install anything; what is missing is then skipped
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${VOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vor}
mkdir -p "$cache"
export VOR_CACHE=$cache
export VOR_ORACLE_CACHE=${VOR_ORACLE_CACHE:-$cache/oracle}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
# Incremental files are of no use to a run that ends, and double the target directory.
export CARGO_INCREMENTAL=0
export CARGO_TERM_PROGRESS_WHEN=never
export PATH=$PATH:$cache/tools/bin
# Where programs were built elsewhere there may be no compiler.
host=$(command -v rustc >/dev/null && rustc -vV | sed -n 's/^host: //p' || uname -m)

step=$(basename "$0")

say() { printf '%s: %s\n' "$step" "$*"; }
fail() { printf '%s: FAILED: %s\n' "$step" "$*" >&2; exit 1; }

# skip WHAT WHY: says loudly that something was not checked; .ci/run repeats it at its end.
skip() {
    printf '%s: SKIPPED: %s: %s\n' "$step" "$1" "$2" >&2
    [ -z "${VOR_CI_SKIPS:-}" ] || printf '%s: %s: %s\n' "$step" "$1" "$2" >>"$VOR_CI_SKIPS"
}

# need_apt PROGRAM PACKAGE...: installs the packages where the program is missing; false where that cannot be done.
need_apt() {
    command -v "$1" >/dev/null && return 0
    install_apt "${@:2}" || return 1
    command -v "$1" >/dev/null
}

# need_file PATTERN PACKAGE...: as need_apt, where a file that matches is missing.
need_file() {
    compgen -G "$1" >/dev/null && return 0
    install_apt "${@:2}" || return 1
    compgen -G "$1" >/dev/null
}

install_apt() {
    [ "${VOR_CI_INSTALL:-1}" != 0 ] && command -v apt-get >/dev/null || return 1
    local root=
    [ "$(id -u)" = 0 ] || root=sudo
    [ -z "$root" ] || $root -n true 2>/dev/null || return 1
    # Archives of its own: another apt at the same time must not delete them.
    local archives=$cache/apt
    mkdir -p "$archives/partial"
    local apt=("$root" timeout 600 env DEBIAN_FRONTEND=noninteractive apt-get -qq -o "Dir::Cache::archives=$archives"
        -o DPkg::Lock::Timeout=300)
    [ -n "$root" ] || apt=("${apt[@]:1}")
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@"; } >"$cache/apt.log" 2>&1 || return 1
    say "installed $* with apt"
}

# need_cargo PROGRAM CRATE: as need_apt, from the crate registry into the cache. Built without optimisation: these programs only start others.
need_cargo() {
    command -v "$1" >/dev/null && return 0
    [ "${VOR_CI_INSTALL:-1}" != 0 ] || return 1
    CARGO_TARGET_DIR=$cache/tools/target timeout 900 cargo install -q --debug --root "$cache/tools" "$2" || return 1
    rm -rf "$cache/tools/target"
    say "installed $2 with cargo"
}

# bring_to FOLDER: makes it a checkout of this one's last commit, and writes no file there that is as it should be; false where that cannot be done.
bring_to() {
    [ -d "$1/.git" ] || { rm -rf "$1" && git init -q "$1"; } || return 1
    git -C "$1" fetch -q --depth 1 "file://$PWD" HEAD && git -C "$1" checkout -q --force --detach FETCH_HEAD && git -C "$1" clean -qfdx
}

# std_source: makes -Zbuild-std work for what is run after it; false where the standard library's source cannot be had.
std_source() {
    local settings
    settings=$(timeout 300 .ci/tools/targets/rust-src --env) || return 1
    eval "$settings"
}

# beside FUNCTION [ARGUMENT]...: runs it meanwhile, since much of what is run leaves a processor idle. What it says is told by `joined`.
beside_ids=() beside_names=() beside_told=
beside() {
    [ -n "$(trap -p EXIT)" ] || trap end_beside EXIT
    [ -n "$beside_told" ] || beside_told=$(mktemp -d)
    # A group of its own, so that what it starts ends with it.
    set -m
    ("$@") >"$beside_told/${#beside_ids[@]}" 2>&1 &
    set +m
    beside_ids+=($!) beside_names+=("$*")
}

# joined: waits for all that runs beside, tells what each said, and fails where one did.
joined() {
    local number failed=()
    for number in "${!beside_ids[@]}"; do
        wait "${beside_ids[number]}" || failed+=("${beside_names[number]}")
        say "${beside_names[number]}"
        cat "$beside_told/$number"
    done
    [ ${#failed[@]} = 0 ] || fail "${failed[*]}"
}

# end_beside: ends what still runs beside. A step with a trap of its own for its end calls it there.
end_beside() {
    local id
    for id in $(jobs -rp); do kill -- "-$id" 2>/dev/null || true; done
    [ -z "$beside_told" ] || rm -rf "$beside_told"
}

# Sourced by every step: the folders, and the functions that steps share.
#
#   CARGO_TARGET_DIR   build files (default: in the cache)
#   VOR_CACHE          files that runs share (default ${XDG_CACHE_HOME:-$HOME/.cache}/vor)
#   VOR_CI_INSTALL=0   never installs anything: see install.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${VOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vor}
mkdir -p "$cache"
export VOR_CACHE=$cache
export VOR_ORACLE_CACHE=${VOR_ORACLE_CACHE:-$cache/oracle}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
# Incremental files are useless to a run that ends, and double the size of the target directory.
export CARGO_INCREMENTAL=0
# Nobody reads the lines of a backtrace; a panic names its own. They are a twentieth of what the
# compiler does.
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}
# Optimising programs of tests took longer than running them.
export RUSTC_WORKSPACE_WRAPPER=$PWD/.ci/tools/rustc-plain-tests
export CARGO_TERM_PROGRESS_WHEN=never
# Tests with random inputs make all their rounds, not a quarter of them.
export PROPTEST_CASES=${PROPTEST_CASES:-256}
export PATH=$PATH:$cache/tools/bin
# A machine that only runs programs built elsewhere may have no compiler.
host=$(command -v rustc >/dev/null && rustc -vV | sed -n 's/^host: //p' || uname -m)

step=$(basename "$0")

say() { printf '%s: %s\n' "$step" "$*"; }
fail() { printf '%s: FAILED: %s\n' "$step" "$*" >&2; exit 1; }

# skip CHECK REASON: reports a check that does not run; .ci/run repeats it at its end.
skip() {
    printf '%s: SKIPPED: %s: %s\n' "$step" "$1" "$2" >&2
    [ -z "${VOR_CI_SKIPS:-}" ] || printf '%s: %s: %s\n' "$step" "$1" "$2" >>"$VOR_CI_SKIPS"
}

. .ci/install.sh

# The members of the workspace that are not published.
# shellcheck disable=SC2034 # for the scripts that read this one
unpublished=(
    vor-benches vor-examples vor-fixtures vor-macro-tests vor-page-features vor-py
    vor-test-features
)

# checkout_into FOLDER: makes the folder a checkout of this one's last commit, and writes only the
# files that differ; false if that fails.
checkout_into() {
    [ -d "$1/.git" ] || { rm -rf "$1" && git init -q "$1"; } || return 1
    git -C "$1" fetch -q --depth 1 "file://$PWD" HEAD &&
        git -C "$1" checkout -q --force --detach FETCH_HEAD &&
        git -C "$1" clean -qfdx
}

# Options of cargo where `CARGO_PROFILE_DEV_OPT_LEVEL` is 1: optimising these crates takes a minute
# for each build, which is more than the tests gain.
# shellcheck disable=SC2034 # for the scripts that read this one
lightly=()
for crate in arrow-array arrow-buffer arrow-data arrow-schema chrono clap_builder clap_complete \
    clap_mangen fxprof-processed-profile indicatif num-bigint nvml-wrapper parquet proptest puffin \
    pyo3 regex-syntax vor vor-fixtures vor-py zerocopy; do
    lightly+=(--config "profile.dev.package.$crate.opt-level = 0")
done

# Options of cargo where few tests run: optimising these crates takes half a minute for each build,
# which is more than these tests gain.
# shellcheck disable=SC2034 # for the scripts that read this one
plainly=(
    --config 'profile.dev.package.vor-capture.opt-level = 0'
    --config 'profile.dev.package.vor-fixtures.opt-level = 0'
    --config 'profile.dev.package.proptest.opt-level = 0'
)

# std_source: makes -Zbuild-std work for later commands; false if the source of the standard
# library is not available.
std_source() {
    local settings
    settings=$(timeout 300 .ci/tools/targets/rust-src --env) || return 1
    eval "$settings"
}

# has_name_spaces: whether this system lets a test mount a small disk of its own.
has_name_spaces() { unshare --user --map-root-user --mount true 2>/dev/null; }

# built_tests FILTER...: runs tests of the programs that `.ci/test` built. With other packages or
# features, cargo would build them again.
built_tests() {
    cargo test -q --workspace --no-default-features --test all --test tracking_exact -- "$@"
}

# built TARGET...: `--bin NAME` or `--example NAME`, as `.ci/test` built them.
built() {
    cargo build -q --workspace --no-default-features "$@"
}

# oracle PACKAGE ARGUMENT...: runs a package of .ci/tools/oracles, which compares the output of
# another program with the recorded data. $oracle_python runs it.
oracle() { PYTHONPATH=.ci/tools/oracles "${oracle_python:-python3}" -B -m "$@"; }

# test_oracle PACKAGE: tests that the comparison rejects wrong input.
test_oracle() {
    oracle unittest discover -q -s ".ci/tools/oracles/$1/tests" -t .ci/tools/oracles ||
        fail "the tests of the oracle \`$1\`"
}

# beside FUNCTION [ARGUMENT]...: starts it in the background, since many commands leave a core idle.
# `joined` prints its output.
beside_ids=() beside_names=() beside_logs=
beside() {
    [ -n "$(trap -p EXIT)" ] || trap end_beside EXIT
    [ -n "$beside_logs" ] || beside_logs=$(mktemp -d)
    # A process group of its own, so that the programs it starts end with it.
    set -m
    ("$@") >"$beside_logs/${#beside_ids[@]}" 2>&1 &
    set +m
    beside_ids+=($!) beside_names+=("$*")
}

# joined: waits for all functions in the background, prints their output, and fails if one failed.
joined() {
    local number failed=()
    for number in "${!beside_ids[@]}"; do
        wait "${beside_ids[number]}" || failed+=("${beside_names[number]}")
        say "${beside_names[number]}"
        cat "$beside_logs/$number"
    done
    beside_ids=() beside_names=()
    [ ${#failed[@]} = 0 ] || fail "${failed[*]}"
}

# end_beside: ends the functions in the background. A step with a trap for EXIT calls it there.
end_beside() {
    local id
    for id in $(jobs -rp); do kill -- "-$id" 2>/dev/null || true; done
    [ -z "$beside_logs" ] || rm -rf "$beside_logs"
}

# Sourced by common.sh: how a step installs what it needs from registries of packages, into the
# system or into the cache.
#
#   VOR_CI_INSTALL=0   never installs anything; checks that need a missing tool are skipped

# need_apt PROGRAM PACKAGE...: installs the packages if the program is missing; false if it stays
# missing.
need_apt() {
    command -v "$1" >/dev/null && return 0
    install_apt "${@:2}" || return 1
    command -v "$1" >/dev/null
}

# need_file PATTERN PACKAGE...: like need_apt, for a file that matches.
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
    # A separate archive folder: another apt at the same time must not delete its files.
    local archives=$cache/apt
    mkdir -p "$archives/partial"
    local apt=("$root" timeout 600 env DEBIAN_FRONTEND=noninteractive
        apt-get -qq -o "Dir::Cache::archives=$archives" -o DPkg::Lock::Timeout=300)
    [ -n "$root" ] || apt=("${apt[@]:1}")
    # A second `apt-get update` fails while another runs, as in a step beside this one.
    {
        flock 8 && "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@"
    } >"$cache/apt.log" 2>&1 8>"$archives.lock" || return 1
    say "installed $* with apt"
}

# need_cargo PROGRAM CRATE OPTION...: like need_apt, from crates.io into the cache. The program is
# built without optimisation and debug information, since these programs have little to do.
need_cargo() {
    command -v "$1" >/dev/null && return 0
    [ "${VOR_CI_INSTALL:-1}" != 0 ] || return 1
    CARGO_TARGET_DIR=$cache/tools/target CARGO_PROFILE_DEV_DEBUG=0 timeout 900 \
        cargo install -q --debug --root "$cache/tools" "${@:2}" || return 1
    rm -rf "$cache/tools/target"
    say "installed $2 with cargo"
}

# need_wheel PROGRAM PACKAGE==VERSION: like need_apt, for a program from a wheel of PyPI. It takes
# seconds, while need_cargo compiles for minutes.
need_wheel() {
    command -v "$1" >/dev/null && return 0
    [ "${VOR_CI_INSTALL:-1}" != 0 ] && command -v python3 >/dev/null || return 1
    local folder=$cache/tools/wheels/$2
    mkdir -p "$cache/tools/bin"
    timeout 120 python3 -m pip install -q --disable-pip-version-check --no-deps \
        --only-binary :all: --upgrade --target "$folder" "$2" >"$cache/pip.log" 2>&1 || return 1
    ln -sf "$folder/bin/$1" "$cache/tools/bin/$1"
    command -v "$1" >/dev/null || return 1
    say "installed $2 with pip"
}

# need_packages FOLDER ARGUMENT...: an environment of Python in that folder of the cache, with
# packages from PyPI; false if they cannot be installed. uv takes a fraction of the time that pip
# takes.
need_packages() {
    local folder=$cache/$1
    shift
    ! grep -qxF -e "$*" "$folder/packages" 2>/dev/null || return 0
    [ "${VOR_CI_INSTALL:-1}" != 0 ] && need_wheel uv uv==0.13.9 || return 1
    local uv=(timeout 600 env UV_CACHE_DIR="$cache/uv" UV_PYTHON_DOWNLOADS=never uv)
    [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
    { [ -x "$folder/bin/python" ] || "${uv[@]}" venv -q --python "$(command -v python3)" "$folder"; } \
        >"$cache/uv.log" 2>&1 &&
        "${uv[@]}" pip install -q --python "$folder/bin/python" "$@" >>"$cache/uv.log" 2>&1 ||
        return 1
    echo "$*" >>"$folder/packages"
    say "installed $* with uv"
}

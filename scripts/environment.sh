# Sourced by the scripts beside it. Needs bash; works offline once everything is installed.

# prepare_environment FOLDER EXTRAS: makes a virtual environment in FOLDER unless there is one, installs this
# checkout (editable) with the given extras ("" or "dev") unless that is done, and sets PYTHON to its interpreter.
prepare_environment() {
    local folder=$1 extras=$2
    if [ ! -x "$folder/bin/python" ]; then
        local base
        base=$(find_python) || return 1
        say "making $folder with $("$base" --version)"
        make_venv "$base" "$folder" || return 1
    fi
    PYTHON=$folder/bin/python
    local stamp=$folder/.minislurm-installed sources installed
    # What is installed depends on these files alone; the code itself is used in place.
    sources="$PWD $(cat pyproject.toml scripts/build_hook.py | cksum)"
    installed=$(cat "$stamp" 2>/dev/null || true)
    # With the tools is more than without.
    if [ "$installed" != "$extras $sources" ] && [ "$installed" != "dev $sources" ]; then
        say "installing minislurm${extras:+ with its $extras tools}"
        "$PYTHON" -m pip install --quiet --disable-pip-version-check --editable ".${extras:+[$extras]}" || return 1
        echo "$extras $sources" >"$stamp"
    fi
}

# The newest interpreter that is new enough.
find_python() {
    local name
    for name in ${MINISLURM_PYTHON:-} python3.13 python3.12 python3.11 python3.10 python3; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "Python 3.10 or newer is needed; none was found (MINISLURM_PYTHON can name one)" >&2
    return 1
}

make_venv() {
    local base=$1 folder=$2
    "$base" -m venv "$folder" 2>/dev/null && return
    # Debian and Ubuntu keep a part of venv in a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing python3-venv"
        apt_install python3-venv || true
    fi
    "$base" -m venv --clear "$folder"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt-get update -qq >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

say() {
    printf '%s\n' "-- $*" >&2
}

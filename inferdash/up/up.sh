#!/bin/sh
# Finds a Python 3.12 or newer and hands over to inferdash.up.install, which needs nothing else;
# INFERDASH_PROGRAM names another module.
set -eu
program=${INFERDASH_PROGRAM:-inferdash.up.install}
command=${INFERDASH_COMMAND:-make up}
cd "$(dirname "$0")/../.."

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

# The Python that .venv was made with comes first: then a second `make up` has nothing to do.
# After it the version that the tests run on.
for python in .venv/bin/python python3.12 python3.13 python3.14 python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9].*/bin/python3; do
    if command -v "$python" >/dev/null 2>&1 && is_new_enough "$python"; then
        exec "$python" -m "$program" "$@"
    fi
done

if command -v uv >/dev/null 2>&1 && python=$(uv python find '>=3.12' 2>/dev/null ||
    { uv python install 3.12 >&2 && uv python find '>=3.12'; }); then
    exec "$python" -m "$program" "$@"
fi

found=$(python3 --version 2>/dev/null || echo "no python3 at all")
echo "inferdash needs Python 3.12 or newer, and this machine has $found." >&2
# Distributions whose own python3 is new enough need one command, others a Python beside theirs.
case $(. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-}:${VERSION_ID:-}") in
ubuntu:2[4-9].* | debian:1[3-9] | fedora:*)
    echo "Install it, then say $command again: sudo apt install python3 (Fedora: dnf)." >&2
    ;;
*)
    echo "These two commands bring one for your user, and leave the system's alone:" >&2
    echo "    curl -LsSf https://astral.sh/uv/install.sh | sh" >&2
    echo "    PATH=\"\$HOME/.local/bin:\$PATH\" $command" >&2
    echo "$command then has uv bring Python 3.12. (Ubuntu 24.04 and Debian 13 have one:" \
        "sudo apt install python3.)" >&2
    ;;
esac
exit 1

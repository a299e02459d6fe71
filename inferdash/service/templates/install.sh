#!/bin/sh
# Installs inferdash from this folder; nothing is asked of the internet.
#   sudo ./install.sh            as services of systemd (options: docs/install.md)
#   ./install.sh                 as make up does: here, in front
set -eu
cd "$(dirname "$0")"
for each in images/*.tar; do
    if [ -e "$each" ] && ! docker load --input "$each"; then
        echo "inferdash: Docker has not loaded $each. Install or start it, then say $0 again; without" \
            "the folder images inferdash is installed alone." >&2
        exit 1
    fi
done
if [ "$(id -u)" = 0 ]; then
    INFERDASH_PROGRAM=inferdash.service exec sh inferdash/up/up.sh install "$@"
fi
exec sh inferdash/up/up.sh "$@"

#!/bin/sh
# inferdash's own commands (backup, restore, leave, invite …), as the user of its services.
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "inferdash-manage needs root: sudo inferdash-manage $*" >&2
    exit 1
fi
umask 077
# Files are named from where one stands.
as_service() {
    runuser -u @user@ -g @group@@also@ -- env @variables@ @python@ @current@/manage.py "$@"
}
case "${1:-}" in
allow|forbid)
    # The services only read what containers may do here: they say what it is to be, root writes it.
    draft=$(mktemp @box_file@.XXXXXX)
    trap 'rm -f "$draft"' EXIT
    as_service "$@" --as-text >"$draft"
    if cmp -s "$draft" @box_file@; then
        echo "@box_file@ says so already."
        exit 0
    fi
    chown root:@group@ "$draft"
    chmod 640 "$draft"
    mv "$draft" @box_file@
    as_service "$@" --note-only
    ;;
*)
    as_service "$@"
    ;;
esac

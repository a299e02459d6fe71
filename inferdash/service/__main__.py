"""`make install`, `make uninstall` and `make rollback`."""

import argparse
import sys

from inferdash.service import layout, verbs
from inferdash.service.layout import ServiceError


def main() -> int:
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    names = parser.add_subparsers(dest="verb", required=True)
    install = names.add_parser("install", help="also upgrades: with a copy of the database before")
    install.add_argument("--as", dest="user", default="", metavar="USER", help="who it runs as")
    install.add_argument(
        "--from", dest="data", default="", metavar="VAR", help="take over its data"
    )
    install.add_argument("--no-start", action="store_true", help="write all of it, start nothing")
    install.add_argument("--no-snapshot", action="store_true", help="upgrade without a copy")
    uninstall = names.add_parser("uninstall", help="engines keep running, data stay")
    uninstall.add_argument("--purge", action="store_true", help="data and settings go too")
    names.add_parser("rollback", help="the release and the database before the last upgrade")
    options = parser.parse_args()
    if not layout.is_root():
        print(f"inferdash: this needs root: sudo make {options.verb}", file=sys.stderr)
        return 1
    try:
        if options.verb == "install":
            verbs.install(
                user=options.user,
                data=options.data,
                start=not options.no_start,
                snapshot=not options.no_snapshot,
            )
        elif options.verb == "uninstall":
            verbs.uninstall(purge=options.purge)
        else:
            verbs.roll_back()
    except ServiceError as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Let profiles do less on this box: host_network, mount /x, device /dev/x …"""

from servers.management.console import PermissionCommand


class Command(PermissionCommand):
    help = __doc__ or ""
    verb = "forbid"

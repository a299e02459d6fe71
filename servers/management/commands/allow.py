"""Let profiles do more on this box: host_network, mount /x, device /dev/x …"""

from servers.management.permission import Permission


class Command(Permission):
    help = __doc__ or ""
    verb = "allow"

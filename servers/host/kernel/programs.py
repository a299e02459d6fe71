"""The programs of the box that hold most of its memory, GPU or not."""

from servers.host.kernel.proc import Kernel, Process, Processes

# Programs that hold less of the machine's memory are not worth a name, nor are more of them.
_LARGE = 256 * 2**20
_MOST = 12
_LOOK_EVERY = 10  # rounds: a look at every process of a busy box takes some 10 ms


class Programs:
    """Looks for the largest now and then, and measures them each time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._processes = Processes(kernel)
        self._largest: list[int] = []
        self._rounds = 0

    def largest(self, *, besides: set[int]) -> list[Process]:
        """Those of at least 256 MiB outside the GPU (`own`), the largest first, without `besides`.

        Rule: RssAnon is what a program has for itself; files that it maps are page cache.
        """
        if self._rounds % _LOOK_EVERY == 0:
            sizes = {pid: self._kernel.own_memory(pid) or 0 for pid in self._kernel.pids()}
            large = [pid for pid, size in sizes.items() if size >= _LARGE]
            self._largest = sorted(large, key=lambda pid: -sizes[pid])[:_MOST]
        self._rounds += 1
        found = self._processes.with_own(set(self._largest) - besides)
        return sorted(found, key=lambda process: -(process.own or 0))

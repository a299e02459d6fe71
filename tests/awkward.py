"""What engines have left behind, with names that break a layout or try to break more."""

from servers.judge.memory.orphans import Orphan

GIB = 2**30

LEFT = [
    Orphan(
        key="process-5200-77",
        kind="process",
        what='process 5200 (VLLM::Engine<img src=x onerror="alert(1)">/' + "long-name/" * 12 + ")",
        why="Its container has ended, the one of glm-5, and it has not.",
        size=int(104.2 * GIB),
        size_of="GPU memory",
        since=1_790_000_000.0,
        actions=("kill",),
    ).to_json(),
    Orphan(
        key="container-0123456789ab",
        kind="container",
        what="container inferdash-1a2b3c4d-77",
        why="It runs, and no run in the database names it.",
        actions=("adopt", "remove"),
        is_running=True,
    ).to_json(),
    Orphan(
        key="shm-psm",
        kind="shm",
        what="852 files /dev/shm/psm_*",
        why="Whether a process still uses them, only root can see.",
        size=18 * GIB,
        size_of="shared memory",
        command="""sudo sh -c 'for f in /dev/shm/psm_*; do fuser -s "$f" || rm -v "$f"; done'""",
    ).to_json(),
]

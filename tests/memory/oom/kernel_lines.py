"""What kernels have written of kills; ids and names as they were."""

from tests.memory.hardware.machines import record

CONTAINER = "55db4ebc8009adcc64dc640550309d22cdad9a05c600d69e0d9255046a250ed1"
# Linux 6.1, cgroup v1, a container with 64 MiB.
LIMIT = f"""\
python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[  24402]     0 24402      255      131        0      131         0    40960        0             0 docker-init
[  24445]     0 24445    54644    17571    16256     1315         0   196608        0             0 python3
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={CONTAINER},mems_allowed=0,oom_memcg=/docker/{CONTAINER},task_memcg=/docker/{CONTAINER},task=python3,pid=24445,uid=0
Memory cgroup out of memory: Killed process 24445 (python3) total-vm:218576kB, anon-rss:65024kB, file-rss:5260kB, shmem-rss:0kB, UID:0 pgtables:192kB oom_score_adj:0
"""
# Linux 5.15, cgroup v2 with systemd: the whole machine.
MACHINE = f"""\
node invoked oom-killer: gfp_mask=0x1100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[   5256]     0  5256  6029312  5242880 42319872        0             0 python3
[   6100]  1000  6100   900000   262144  3000000        0             0 node
[   6200]  1000  6200   900000      900  3000000        0             0 small
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=user.slice,mems_allowed=0,global_oom,task_memcg=/system.slice/docker-{CONTAINER}.scope,task=python3,pid=5256,uid=0
Out of memory: Killed process 5256 (python3) total-vm:24117248kB, anon-rss:20971520kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:41328kB oom_score_adj:0
"""
# Linux 4.15 names neither cgroup nor container.
OLD = """\
Out of memory: Kill process 5256 (VLLM::Worker (T) score 900 or sacrifice child
Killed process 5256 (VLLM::Worker (T) total-vm:24117248kB, anon-rss:20971520kB, file-rss:4kB, shmem-rss:0kB
"""


def records(text: str) -> str:
    """As /dev/kmsg has them, of now."""
    return "".join(record(line) for line in text.splitlines())

"""The kernel's files, recorded ones and those of this very machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers.host.kernel.proc import Kernel, KernelError, Processes, mask_command_line
from tests import proc

ID = "4f1c" * 16


def test_meminfo_is_in_bytes_and_counts_stay_counts(tmp_path: Path) -> None:
    meminfo = Kernel(root=proc.root(tmp_path)).meminfo()

    lines = (proc.RECORDED / "meminfo").read_text().splitlines()
    assert len(meminfo) == len(lines)
    assert meminfo["MemTotal"] == int(lines[0].split()[1]) * 1024
    assert meminfo["Hugepagesize"] == 2 * 1024**2
    assert meminfo["HugePages_Total"] == 0


def test_what_no_line_of_meminfo_counts_is_found(tmp_path: Path) -> None:
    root = proc.root(tmp_path)
    assert Kernel(root=root).outside_meminfo() == {}

    for number in range(2):
        # orig_data_size compr_data_size mem_used_total mem_limit …
        stat = "  8589934592 2147483648 2254857830        0 2254857830     1042    34078        0\n"
        proc.write(root, f"sys/block/zram{number}/mm_stat", stat)
    kstat = (
        "9 1 0x01 147 39984 4159823478 1209342342342\n"
        "name                            type data\n"
        "hits                            4    127634512\n"
        "size                            4    32212254720\n"
        "compressed_size                 4    31139143680\n"
    )
    proc.write(root, "proc/spl/kstat/zfs/arcstats", kstat)

    assert Kernel(root=root).outside_meminfo() == {"Zram": 2 * 2254857830, "ZfsArc": 32212254720}


def test_without_meminfo_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="meminfo cannot be read .* mount /proc"):
        Kernel(root=tmp_path).meminfo()


def test_every_other_fact_may_be_absent(tmp_path: Path) -> None:
    kernel = Kernel(root=tmp_path)

    assert kernel.outside_meminfo() == {}
    assert kernel.boot_id() is None
    assert kernel.uptime() is None
    assert kernel.booted_at() is None
    assert kernel.driver_version() is None
    assert kernel.driver_params() == {}
    assert kernel.memory_pressure() is None
    assert kernel.read_swapped() is None
    assert kernel.node_meminfo(0) is None
    assert kernel.users() == {}
    assert kernel.sees_host_pids() is False


def test_the_recorded_facts_are_read(tmp_path: Path) -> None:
    kernel = Kernel(root=proc.root(tmp_path))

    assert kernel.boot_id() == (proc.RECORDED / "boot_id").read_text().strip()
    assert kernel.booted_at() == 1795243036
    assert kernel.memory_pressure() is not None
    assert kernel.read_swapped() == (0, 0)
    node = kernel.node_meminfo(0)
    assert node is not None
    assert node["MemTotal"] == 8218828 * 1024


def test_this_machine_can_be_read() -> None:
    kernel = Kernel()

    assert kernel.meminfo()["MemTotal"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert kernel.boot_id()
    me = Processes(kernel).read({os.getpid()})[0]
    assert me.ppid == os.getppid()
    assert me.state == "R"
    assert me.title.startswith(sys.orig_argv[0])
    assert me.started_at is not None


def test_another_pid_namespace_is_told_apart(tmp_path: Path) -> None:
    assert Kernel(root=proc.root(tmp_path / "host")).sees_host_pids() is True
    inside = proc.root(tmp_path / "container", pid_namespace=4026532741)
    assert Kernel(root=inside).sees_host_pids() is False


def test_the_driver_says_its_version_and_parameters(tmp_path: Path) -> None:
    kernel = Kernel(root=proc.root(tmp_path))
    proc.driver(tmp_path, "590.48.01", {"EnableSystemMemoryPools": 529})

    assert kernel.driver_version() == "590.48.01"
    assert kernel.driver_params()["EnableSystemMemoryPools"] == 529


@pytest.mark.parametrize(
    "cgroup",
    [
        f"12:memory:/docker/{ID}",
        f"0::/system.slice/docker-{ID}.scope",
        f"0::/docker/{ID}",
        f"0::/machine.slice/libpod-{ID}.scope/container",
        f"0::/kubepods.slice/kubepods-pod7.slice/cri-containerd-{ID}.scope",
        f"0::/../../docker-{ID}.scope",
        f"1:name=systemd:/\n0::/docker/{'0' * 64}/docker/{ID}",
    ],
)
def test_a_process_names_its_container(tmp_path: Path, cgroup: str) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 4242, cgroup=cgroup)

    assert Processes(Kernel(root=root)).read({4242})[0].container == ID


@pytest.mark.parametrize("cgroup", ["0::/", f"0::/user.slice/{ID[:63]}", f"0::/x{ID}"])
def test_a_process_outside_has_no_container(tmp_path: Path, cgroup: str) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 4242, cgroup=cgroup)

    assert Processes(Kernel(root=root)).read({4242})[0].container is None


def test_a_process_with_brackets_in_its_name_is_read(tmp_path: Path) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 7, name="a) S 99 (b", cmdline=("VLLM::EngineCore",), uid=1000, start=250)

    process = Processes(Kernel(root=root)).read({7})[0]

    assert (process.name, process.ppid, process.start) == ("a) S 99 (b", 1, 250)
    assert process.title == "VLLM::EngineCore"
    assert process.user == "ada"
    assert process.started_at == 1795243036 + 2.5


def test_a_user_without_a_name_is_a_number(tmp_path: Path) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 7, uid=65534)

    assert Processes(Kernel(root=root)).read({7})[0].user == "65534"


def test_processes_that_are_gone_are_left_out(tmp_path: Path) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 7)

    assert [process.pid for process in Processes(Kernel(root=root)).read({3, 7, 9})] == [7]


def test_a_pid_that_was_given_out_again_is_another_process(tmp_path: Path) -> None:
    root = proc.root(tmp_path)
    processes = Processes(Kernel(root=root))
    proc.process(root, 7, start=100, cmdline=("old",), cgroup=f"0::/docker/{ID}")
    processes.read({7})
    proc.process(root, 7, start=200, cmdline=("new",))

    process = processes.read({7})[0]

    assert (process.start, process.title, process.container) == (200, "new", None)


def test_a_process_stuck_in_the_kernel_is_not_asked_for_its_command_line(tmp_path: Path) -> None:
    root = proc.root(tmp_path)
    proc.process(root, 7, name="sglang", state="D")
    # Opening a pipe that nobody writes to would block, as the real file may.
    (root / "proc/7/cmdline").unlink()
    os.mkfifo(root / "proc/7/cmdline")

    assert Processes(Kernel(root=root)).read({7})[0].title == "sglang"


def test_a_process_without_a_command_line_has_its_name_as_title() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        zombie = Processes(Kernel()).read({ended.pid})[0]

    assert zombie.state == "Z"
    assert zombie.title == zombie.name


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["vllm", "serve", "--api-key", "s3cret", "--port", "1"], "vllm serve --api-key ••• --port 1"),
        (["vllm", "--api-key=s3cret"], "vllm --api-key=•••"),
        (["env", "HF_TOKEN=abc", "x"], "env HF_TOKEN=••• x"),
        (["x", "hf_abcdefgh"], "x •••"),
        (["curl", "-H", "Authorization: Bearer abc"], "curl -H Authorization: •••"),
        (["serve", "--tokenizer", "qwen"], "serve --tokenizer qwen"),
        (["two\nlines"], "two lines"),
    ],
)  # fmt: skip
def test_titles_hide_secrets(words: list[str], shown: str) -> None:
    assert mask_command_line("".join(f"{word}\0" for word in words)) == shown

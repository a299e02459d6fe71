import re
import shutil
from pathlib import Path

import pytest

from inferdash.up import plan, ports
from tests.ports import free_port
from tests.up.programs import ROOT


def test_one_address_of_the_machine_comes_with_loopback() -> None:
    port = free_port()
    both = ports.listen("127.0.0.2", port)
    assert [each.getsockname()[0] for each in both] == ["127.0.0.2"]  # loopback already
    for each in both:
        each.close()
    assert ports.is_loopback("localhost")
    assert not ports.is_loopback("0.0.0.0")


def test_the_ssh_line_names_the_port_that_sshd_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.1.1.2 5000 10.1.1.1 2222")
    assert str(plan.tunnel(8470)).startswith("ssh -p 2222 -L 8470:127.0.0.1:8470 ")
    monkeypatch.delenv("SSH_CONNECTION")
    assert plan.tunnel(8470) is None


# Of the build's own tools; the example names them in a sentence.
PACKAGES = {"EXTRA_CA", "NPM_CONFIG_REGISTRY"} | {
    f"PIP_{name}" for name in ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST")
}


# What docker-compose.yml itself says, and what is of no use there.
OF_COMPOSE = {"DATABASE_URL", "DEBUG", "INFERDASH_BOX_FILE", "INFERDASH_CONTAINERS", "INFERDASH_DATA",
              "INFERDASH_HOST_ROOT", "INFERDASH_KERNEL_ROOT", "INFERDASH_MANAGE", "INFERDASH_REDIS_OPEN",
              "INFERDASH_REDIS_SOCKET", "REDIS_CA", "REDIS_URL", "TLS_DATA", "INFERDASH_WIRE",
              "INFERDASH_BRING_UP", "INFERDASH_HUB_OWNER", "INFERDASH_HUB_ACCOUNT"}  # fmt: skip

# What docker-compose.yml alone sets, and what is said once, in front of a command.
NO_SETTINGS = {"INFERDASH_CONTAINERS", "INFERDASH_REDIS_SOCKET", "JOIN", "NAME"}


def test_every_setting_stands_in_the_example(tmp_path: Path) -> None:
    source = (ROOT / "inferdash/settings.py").read_text()
    read = set(re.findall(r'\benv(?:_\w+)?\("([A-Z_]+)"', source))
    composed = set(re.findall(r"\$\{([A-Z_]+)[:}]", (ROOT / "docker-compose.yml").read_text()))
    assert read - composed == OF_COMPOSE
    read = (read | composed) - PACKAGES - NO_SETTINGS

    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)) == read
    # With every # taken away it is still a file that we can read.
    shutil.copy(ROOT / ".env.example", tmp_path)
    lines = [line for line in example.splitlines() if re.match(r"#?[A-Z_]+=", line)]
    assert len(lines) == len(read)

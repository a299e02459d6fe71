"""box.toml is changed where a line says so, and nowhere else."""

import pytest

from servers.judge.runs import limits, open_limits
from servers.judge.runs.limits import LimitsError
from tests.cases import table

COMMENTED = 'mount_roots = [ # ]\n  "/a", # first\n  "/b" # "]"\n] # end\nreclaim = false # no\n'


@table(
    ("text", "verb", "what", "values", "after"),
    [
        ("", "allow", "host_network", [], "host_network = true\n"),
        ("", "forbid", "host_network", [], "host_network = false\n"),
        ("reclaim = false # why", "allow", "reclaim", [], "reclaim = true # why"),
        ("reclaim=true", "allow", "reclaim", [], "reclaim=true"),
        ('mount_roots = ["/a"] # x\n', "allow", "mount", ["/b"], 'mount_roots = ["/b", "/a"] # x\n'),
        ('mount_roots = ["/a"]\n', "allow", "mount", ["/a"], 'mount_roots = ["/a"]\n'),
        ("mount_roots = []", "allow", "mount", ["/b", "/c"], 'mount_roots = ["/b", "/c"]'),
        ('mount_roots = ["/a", "/b"]', "forbid", "mount", ["/b"], 'mount_roots = ["/a"]'),
        ("mount_roots = ['/a', '/b']", "forbid", "mount", ["/a"], "mount_roots = ['/b']"),
        ('cap_add = ["X"]', "forbid", "capability", ["X"], "cap_add = []"),
        ('devices = []\nvolumes = ["v"]', "allow", "device", ["/dev/x"],
         'devices = ["/dev/x"]\nvolumes = ["v"]'),
        (COMMENTED, "allow", "reclaim", [], COMMENTED.replace("false", "true")),
        (COMMENTED, "forbid", "mount", ["/a"], COMMENTED.replace('"/a", ', "")),
        ("", "allow", "mount", ['/a "b"'], 'mount_roots = ["/a \\"b\\""]\n'),
    ],
)  # fmt: skip
def test_one_limit_changes_and_the_rest_stays(
    text: str, verb: str, what: str, values: list[str], after: str
) -> None:
    edit = open_limits.allow_in_file if verb == "allow" else open_limits.forbid_in_file

    assert edit(text, what, values) == after


def test_the_file_of_a_new_box_takes_every_change_and_its_way_back() -> None:
    text = limits.default_text("/home/ada")
    changes: list[tuple[str, list[str]]] = [(each, []) for each in open_limits.SWITCHES]
    changes += [("mount", ["/x y", "/z"]), ("device", ["/dev/kvm"]), ("capability", ["NET_RAW"])]
    changes += [("volume", ["v"]), ("security_opt", ["seccomp=unconfined"])]

    for what, values in changes:
        there = open_limits.allow_in_file(
            open_limits.forbid_in_file(text, what, values), what, values
        )
        back = open_limits.forbid_in_file(there, what, values)
        assert limits.parse(there) != limits.parse(back), what
        assert back == open_limits.forbid_in_file(text, what, values), what
        assert [line for line in text.splitlines() if "#" in line] == [
            line for line in there.splitlines() if "#" in line
        ]


def test_what_only_a_person_can_change_is_left_alone() -> None:
    with pytest.raises(LimitsError, match="Edit the file by hand"):
        open_limits.forbid_in_file('"mount\\u005froots" = ["/a"]\n', "mount", ["/a"])
    with pytest.raises(LimitsError, match="not valid TOML"):
        open_limits.allow_in_file("mount_roots = [", "mount", ["/a"])

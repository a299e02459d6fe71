"""Who would bring back what somebody else has started, and the command that keeps them from it."""

import pytest

from servers.judge.external.engines import (
    MissingPermission,
    Origin,
    WatcherRights,
    together,
    unseen,
)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (Origin(policy="always"), "docker update --restart=no llm"),
        (Origin(policy="unless-stopped"), "docker update --restart=no llm"),
        (Origin(unit="vllm.service"), "sudo systemctl disable --now vllm.service"),
        (Origin(unit="user: llm.service"), "systemctl --user disable --now llm.service"),
        (
            Origin(project="speech", service="llm", folder="/srv/my speech"),
            "cd '/srv/my speech' && docker compose -p speech up -d "
            "$(docker compose -p speech config --services | grep -vxF llm)",
        ),
        (Origin(manager="Swarm service llm"), ""),
    ],
)
def test_each_reviver_has_the_command_that_stops_it(origin: Origin, command: str) -> None:
    (found,) = origin.revivers("llm")

    assert found.command == command


def test_what_nobody_brings_back_has_no_reviver() -> None:
    assert Origin(user="ada", unit="session").revivers("") == ()
    assert Origin().revivers("llm") == ()


def test_each_of_several_revivers_is_told() -> None:
    both = Origin(policy="always", project="speech", service="llm", unit="vllm.service")

    assert [each.command.split()[0] for each in both.revivers("llm")] == [
        "sudo",
        "docker",
        "docker",
    ]


def standing(**values: object) -> WatcherRights:
    usual = {
        "user": "svc",
        "is_root": False,
        "is_in_container": False,
    }
    return WatcherRights(**(usual | values))  # type: ignore[arg-type]


def names(found: tuple[MissingPermission, ...]) -> list[str]:
    return [each.what.split()[0] for each in found]


def test_a_box_that_grants_everything_hides_nothing() -> None:
    assert unseen(standing(is_root=True), {"unseen": {}}) == ()


def test_what_is_not_granted_is_told_with_its_command() -> None:
    sample = {"unseen": {"kernel_log": "The kernel's log may not be read by this user: …"}}
    found = unseen(standing(is_docker_refused=True), sample)

    assert names(found) == ["Containers", "What", "The"]
    assert found[0].command == "sudo usermod -aG docker svc"
    one = together(found)
    assert one.count("sudo ") == 2
    assert one.count(" && ") == 1


def test_one_command_needs_no_summary() -> None:
    assert (
        together(
            (
                MissingPermission(what="a", why="b", command="c"),
                MissingPermission(what="d", why="e"),
            )
        )
        == ""
    )


def test_a_watcher_in_a_container_says_what_it_misses() -> None:
    found = unseen(standing(is_root=True, is_in_container=True), None)

    assert names(found) == ["GPUs", "Engines"]
    assert "pid: host" in found[1].why

"""A fix in the words of the launch: what stands there in another spelling, or several times."""

from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.profiles.lint_rules import Fix, adapt_fix
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.flaglist import newest
from servers.launch.engines.launch import Launch


def mended(engine: str, fix: Fix, *flags: str) -> tuple[str, ...]:
    launch = Launch(engine=engine, image="image", checkpoint="m", flags=flags)
    facts = LaunchFacts(Subject(launch=launch, flaglist=newest(engine)))
    change = adapt_fix(fix, facts, reason="")
    assert change is not None
    return change.apply(launch).flags


def test_an_entry_is_added_beside_those_in_another_spelling() -> None:
    fix = Fix(change=LaunchChange(set_flags={"--override-tensor": "exps=CPU"}))

    flags = mended("llamacpp", fix, "-ot", "a=CPU", "--override-tensor", "b=CPU")

    assert set(flags) == {"-ot", "--override-tensor", "a=CPU", "b=CPU", "exps=CPU"}


def test_a_flag_that_holds_no_entries_is_still_set_once() -> None:
    fix = Fix(change=LaunchChange(set_flags={"--tensor-parallel-size": "2"}))

    assert mended("vllm", fix, "-tp", "4", "--tensor-parallel-size", "8") == ("-tp", "2")


def test_a_new_name_keeps_every_entry() -> None:
    fix = Fix(rename_flags={"--adapters": "--lora-modules"})

    flags = mended("vllm", fix, "--adapters", "sql=/a", "law=/b", "--adapters", "chat=/c")

    assert flags == ("--lora-modules", "sql=/a", "law=/b", "chat=/c")


def test_a_new_name_keeps_all_values_of_a_list_and_of_several_lists_the_last() -> None:
    fix = Fix(rename_flags={"--old-sizes": "--cuda-graph-bs"})

    assert mended("sglang", fix, "--old-sizes", "1", "2") == ("--cuda-graph-bs", "1", "2")
    assert mended("sglang", fix, "--old-sizes", "1", "--old-sizes", "4", "8") == (
        "--cuda-graph-bs",
        "4",
        "8",
    )

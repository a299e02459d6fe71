"""A table of cases names each that fails, and hides nothing."""

from pathlib import Path

import pytest

from tests.cases import Cases, table


def failed(test: object) -> str:
    """What pytest is told of a test that fails."""
    with pytest.raises(AssertionError) as caught:
        test()  # type: ignore[operator]
    return str(caught.value)


def test_every_row_is_run_and_a_table_that_holds_passes() -> None:
    seen = []

    @table(("one", "other"), [(1, 2), pytest.param(3, 4, id="the second")])
    def each(one: int, other: int) -> None:
        seen.append((one, other))

    each()  # type: ignore[call-arg]
    assert seen == [(1, 2), (3, 4)]


def test_a_case_that_fails_is_named_with_its_line_and_what_was_wrong() -> None:
    @table("number", [1, 2, 3], ids=["one", "two", "three"])
    def each(number: int) -> None:
        assert number != 2

    told = failed(each)

    assert told.startswith("1 of 3 cases failed:\ntwo\n    test_cases.py:")
    assert "assert number != 2\n" in told
    assert "AssertionError: assert 2 != 2" in told
    assert "one" not in told
    assert "three" not in told


def test_two_cases_that_fail_are_both_named_and_those_behind_them_are_run() -> None:
    seen = []

    @table("number", lambda: iter(range(4)), ids=str)
    def each(number: int) -> None:
        seen.append(number)
        if number == 1:
            raise KeyError("plum")
        if number == 2:
            pytest.fail("no plum")

    lines = failed(each).splitlines()

    assert lines[:2] == ["2 of 4 cases failed:", "1"]
    assert lines[3] == "    KeyError: 'plum'"
    assert lines[4] == "2"
    assert lines[6] == "    Failed: no plum"
    assert seen == [0, 1, 2, 3]


def test_the_first_that_failed_is_shown_whole() -> None:
    @table("number", [1, 2])
    def each(number: int) -> None:
        raise LookupError(str(number))

    with pytest.raises(AssertionError) as caught:
        each()  # type: ignore[call-arg]

    assert repr(caught.value.__cause__) == "LookupError('1')"


def test_a_table_without_cases_fails() -> None:
    @table("number", [])
    def each(number: int) -> None: ...

    assert failed(each) == "There is no case in this table."


def test_a_case_that_is_skipped_fails() -> None:
    @table("number", [1, 2])
    def each(number: int) -> None:
        pytest.skip("no plums here")

    told = failed(each)

    assert told.startswith("2 of 2 cases failed:\nnumber=1\n")
    assert "A case may not be skipped: no plums here" in told


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), pytest.exit.Exception("")])
def test_what_ends_the_run_is_not_kept(error: BaseException) -> None:
    cases = Cases()

    with pytest.raises(type(error)) as caught, cases, cases.named("one"):
        raise error

    assert caught.value is error


def test_what_breaks_between_two_cases_is_not_hidden_by_a_case_that_failed() -> None:
    def run() -> None:
        with Cases() as cases:
            with cases.named("one"):
                raise AssertionError
            raise LookupError

    with pytest.raises(LookupError):
        run()


def test_a_name_stands_for_what_is_long_and_has_many_lines() -> None:
    @table(("text", "count"), [("a\nb " * 40, 1)])
    def each(text: str, count: int) -> None:
        raise AssertionError

    name = failed(each).splitlines()[1]

    assert name.startswith("text='a\\nb a\\nb")
    assert name.endswith("..., count=1")
    assert len(name) < 100


def test_each_case_has_a_folder_and_patches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CaseHolder:
        name = "elm"

    @table("number", [1, 2])
    def each(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert list(tmp_path.iterdir()) == []
        assert CaseHolder.name == "elm"
        (tmp_path / "plum").touch()
        monkeypatch.setattr(CaseHolder, "name", f"oak-{number}")

    each(tmp_path=tmp_path, monkeypatch=monkeypatch)  # type: ignore[call-arg]

    assert CaseHolder.name == "elm"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_cases_would_share_is_named_on_purpose() -> None:
    def one(number: int, database: object) -> None: ...

    with pytest.raises(TypeError, match="The cases of one would share database"):
        table("number", [1])(one)
    table("number", [1], shared=("database",))(one)


def test_a_table_that_does_not_fit_its_test_is_refused() -> None:
    def one(number: int, other: int) -> None: ...

    async def later(number: int) -> None: ...

    with pytest.raises(TypeError, match="one has no argument plum"):
        table(("number", "other", "plum"), [])(one)
    with pytest.raises(TypeError, match="would not be waited for"):
        table("number", [1])(later)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="2 rows have 1 names"):
        table(("number", "other"), [(1, 2), (3, 4)], ids=["a"])(one)()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="Row 2 has 1 values, for 2 names"):
        table(("number", "other"), [(1, 2), (3,)])(one)()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="A row has no marks"):
        table("number", [pytest.param(1, marks=pytest.mark.docker)], shared=("other",))(one)(
            other=2
        )  # type: ignore[call-arg]

"""What images are by their names, how far pulls are, what a newer build means, what may be built."""

import pytest

from servers.host.images.images import BuildAnswer, PullProgress
from servers.host.images.registry import familiar, parse
from servers.judge.images import dockerfile, names
from servers.judge.profiles.facts import LintFinding
from servers.launch.commandline import text_boxes
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.launch import Launch
from servers.lifecycle.images import inventory
from tests.cases import table

GIB = 2**30


def test_references_mean_the_same_as_docker_lists_them() -> None:
    assert familiar("vllm/vllm-openai") == "vllm/vllm-openai:latest"
    assert familiar("docker.io/library/debian:12") == "debian:12"
    assert familiar("index.docker.io/vllm/vllm-openai:v1") == "vllm/vllm-openai:v1"
    assert familiar("ghcr.io/a/b@sha256:11") == "ghcr.io/a/b@sha256:11"
    assert familiar("127.0.0.1:5000/x") == "127.0.0.1:5000/x:latest"
    assert familiar("sha256:abc") == "sha256:abc"
    assert parse("nvcr.io/nvidia/vllm:26.05-py3").registry == "nvcr.io"
    assert parse("127.0.0.1:5000/x:1").is_local
    assert not parse("registry.example/x:1").is_local
    assert parse("localhost:5000/x").repository == "x"
    assert (
        parse("registry.example/a/b:1").with_digest("sha256:22") == "registry.example/a/b@sha256:22"
    )


def test_an_image_is_known_by_its_names() -> None:
    assert names.engine_of(["registry.example/team/vLLM-patched:1"]) == "vllm"
    assert names.engine_of(["lmsysorg/sglang:v0.5.12", "x@sha256:1"]) == "sglang"
    assert names.engine_of(["ghcr.io/ggml-org/llama.cpp:server-cuda"]) == "llamacpp"
    assert names.engine_of(["postgres:17"]) == ""
    assert names.version_of({"org.opencontainers.image.version": "0.20.2"}) == "0.20.2"
    # Inherited from the base image: the release of Ubuntu.
    assert names.version_of({"org.opencontainers.image.version": "22.04"}) == ""
    assert names.is_for((), "amd64")
    assert names.is_for(("linux/arm64", "linux/amd64"), "amd64")
    assert not names.is_for(("linux/arm64", "windows/amd64"), "amd64")


def line(status: str, layer: str = "", **detail: int) -> dict[str, object]:
    return {"status": status, "id": layer, "progressDetail": detail}


def test_layers_are_told_one_by_one_and_in_all() -> None:
    heard = PullProgress()
    heard.hear(line("Pulling from team/engine", "1"))
    for layer in ("a" * 12, "b" * 12, "c" * 12):
        heard.hear(line("Pulling fs layer", layer))
    heard.hear(line("Already exists", "a" * 12))
    heard.hear(line("Downloading", "b" * 12, current=30, total=100))
    sizes = {f"sha256:{letter * 64}": size for letter, size in (("a", 50), ("b", 100), ("c", 7))}

    progress = heard.so_far()
    assert (progress.done, progress.total) == (30, 100)
    assert names.whole(progress, sizes) == (80, 157)
    assert [(each["state"], each["total"]) for each in names.format_layers(progress.layers, sizes)] == [
        ("there", 50), ("downloading", 100), ("waiting", 7),
    ]  # fmt: skip

    heard.hear(line("Download complete", "b" * 12))
    heard.hear(line("Extracting", "b" * 12, current=60, total=100))
    extracting = heard.so_far().layers[1]
    assert (extracting.state, extracting.done, extracting.unpacked) == ("extracting", 100, 60)
    heard.hear(line("Pull complete", "b" * 12))
    heard.hear(line("Pull complete", "c" * 12))
    assert names.whole(heard.so_far(), sizes) == (157, 157)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = names.Rate()
    assert rate.see(0, 0) is None
    assert rate.see(0.5, 10) is None
    assert rate.see(2, 200) == 100
    for t in range(3, 30):
        last = rate.see(t, 200)
    assert last == 0


def finding(
    rule: str, about: str, fix: LaunchChange | None = None, severity: str = "error"
) -> LintFinding:
    return LintFinding(rule=rule, severity=severity, says="…", about=about, fix=fix)  # type: ignore[arg-type]


RENAME = LaunchChange(set_flags={"--new": "1"}, drop_flags=("--old",))


def test_a_newer_build_is_told_by_what_it_would_change() -> None:
    same = names.judge_new_build([], [finding("x", "--a", severity="warning")])
    renamed = names.judge_new_build([], [finding("unknown-flag", "--old", RENAME)])
    changed = names.judge_new_build([], [finding("x", "env", LaunchChange(set_env={"A": "1"}))])
    dropped = LaunchChange(drop_flags=("--gone",))
    cannot = names.judge_new_build([], [finding("unknown-flag", "--gone", dropped)])
    nothing = names.judge_new_build([], [finding("x", "--b")])
    known = finding("x", "--b")
    stale = names.judge_new_build([known], [known])

    assert [each.kind for each in (same, renamed, changed, cannot, nothing, stale)] == [
        "same", "renamed", "changed", "cannot", "cannot", "same",
    ]  # fmt: skip
    assert stale.stale == 1
    four = [same] * 3 + [stale]
    assert names.describe_new_build([*four, renamed, cannot]) == (
        "4 start as they are, 1 needs a flag renamed, 1 does not start"
    )
    assert names.describe_new_build([names.explain_unknown_build("why")]) == "1 unknown"
    assert names.describe_new_build([]) == ""


def test_a_dockerfile_is_read_for_what_it_may_not() -> None:
    def faults(text: str, **files: str) -> list[str]:
        return dockerfile.faults(
            text, {name.replace("_", "."): each for name, each in files.items()}
        )

    good = "ARG V=1\n# patched\nFROM vllm/vllm-openai:v0.20.2\nRUN pip install \\\n  a \\\n  b\n"
    assert faults(good) == []
    assert dockerfile.base(good) == "vllm/vllm-openai:v0.20.2"
    assert "must begin with FROM" in faults("RUN true")[0]
    assert faults("FROM x\nCOPY fix.patch /", fix_patch="-") == []
    assert faults("FROM x\nCOPY --from=builder /a /b") == []
    assert faults("FROM x\nCOPY ./fix.patch other.sh /", fix_patch="-") == [
        "Line 2: other.sh is not among the files beside the Dockerfile."
    ]
    assert "is no name" in dockerfile.faults("FROM x", {"../../etc/passwd": "x"})[0]
    assert "is no name" in dockerfile.faults("FROM x", {"Dockerfile": "x"})[0]
    assert "larger than" in dockerfile.faults("FROM x", {"a": "x" * (300 << 10)})[0]


IDS = {"a/b:1": "sha256:" + "a" * 64, "c/d": "sha256:" + "c" * 64}
A, C = IDS.values()


@table(
    ("text", "written"),
    [
        ("FROM a/b:1\nRUN true\n", f"FROM {A}\nRUN true\n"),
        ("# FROM c/d\nfrom a/b:1", f"# FROM c/d\nFROM {A}"),
        ("ARG B=a/b:1\nFROM ${B} AS one\nFROM $B", f"ARG B=a/b:1\nFROM {A} AS one\nFROM {A}"),
        ("ARG B='c/d'\nFROM $B", f"ARG B='c/d'\nFROM {C}"),
        ("FROM \\\n# c/d\n  a/b:1 \\\n\n AS x\nRUN a", f"FROM {A} AS x\n\n\n\n\nRUN a"),
        ("FROM --platform=$X a/b:1 as X\nFROM x\nFROM X AS y",
         f"FROM --platform=$X {A} as X\nFROM x\nFROM X AS y"),
        ("FROM scratch\nFROM c/d AS scratch\nFROM scratch", f"FROM scratch\nFROM {C} AS scratch\nFROM scratch"),
        ("FROM a/b:1 AS c/d\nFROM c/d\nFROM c/d:2 AS z",  None),
        ("\ufeffFROM a/b:1\r\nRUN x\r\n", f"FROM {A}\nRUN x\n"),
        ("FROM a/b:1\nCOPY --from=c/d /a /b\nRUN echo \\\nFROM c/d", f"FROM {A}\nCOPY --from=c/d /a /b\nRUN echo \\\nFROM c/d"),
    ],
)  # fmt: skip
def test_a_build_begins_with_the_images_that_were_looked_at(text: str, written: str | None) -> None:
    if written is None:
        with pytest.raises(KeyError):
            dockerfile.pin_images(text, IDS)
        return
    assert dockerfile.pin_images(text, IDS) == written
    # And as Docker reads it, it is the same but for that.
    rests = [each[1:] for each in dockerfile.instructions(text) if each[1] != "FROM"]
    assert [e[1:] for e in dockerfile.instructions(written) if e[1] != "FROM"] == rests


REMOTE = "http://127.0.0.1:8499/meta /stolen"


@table(
    ("text", "says"),
    [
        (f"FROM x\nADD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nadd {REMOTE}", "ADD is not taken"),
        (f"FROM x\nADD\t{REMOTE}", "ADD is not taken"),
        (f"FROM x\n \t ADD\t \t{REMOTE}", "ADD is not taken"),
        (f"FROM x\n\u00a0\u3000ADD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nADD\u00a0{REMOTE}", "no instruction that is taken"),
        (f"FROM x\nADD\v{REMOTE}", "control character"),
        (f"FROM x\nADD\f{REMOTE}", "control character"),
        (f"FROM x\nADD\r{REMOTE}", "control character"),
        (f"FROM x\rADD {REMOTE}", "control character"),
        (f"FROM x\r\nADD {REMOTE}\r\n", "ADD is not taken"),
        (f"\ufeffFROM x\nADD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nADD --chmod=1 {REMOTE}", "ADD is not taken"),
        ("FROM x\nADD git@example.org:a/b.git /a", "ADD is not taken"),
        ("FROM x\nADD a.tar /a", "ADD is not taken"),
        ('FROM x\nADD ["http://127.0.0.1/","/x"]', "ADD is not taken"),
        ('FROM x\nADD["http://127.0.0.1/","/x"]', "no instruction that is taken"),
        ("FROM x\nENV U=http://127.0.0.1/\nADD $U /x", "ADD is not taken"),
        ("FROM x\nARG U=http://127.0.0.1/\nADD ${U} /x", "ADD is not taken"),
        # Continued: glued without a blank, over comments and empty lines, at whatever place.
        (f"FROM x\nAD\\\nD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nA\\  \n# \\\n\n \t\nDD {REMOTE}", "ADD is not taken"),
        (f"FROM x\n\\\nADD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nADD \\\n {REMOTE}", "ADD is not taken"),
        # Not continued, for Docker or for some of its versions.
        (f"FROM x\nRUN a \\\u00a0\nADD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nRUN a \\\v\nADD {REMOTE}", "control character"),
        (f"FROM x\nRUN a \\\r\r\nADD {REMOTE}", "control character"),
        (f"FROM x\nRUN a \\\\\nADD {REMOTE}", "two backslashes"),
        (f"FROM x\nRUN a # \\\\ \nADD {REMOTE}", "two backslashes"),
        (f"FROM x\n# a \\\nADD {REMOTE}", "ADD is not taken"),
        (f"FROM x\nRUN a\u2028ADD {REMOTE}\nADD {REMOTE}", "ADD is not taken"),
        # By another sign that continues a line.
        (f"# escape=`\nFROM x\nRUN a \\\nADD {REMOTE}", "escape directive"),
        (f"#\t Escape =`\nFROM x\nRUN a \\\nADD {REMOTE}", "escape directive"),
        (f"\ufeff # syntax=x\n#escape=\\\nFROM x\nADD {REMOTE}", "escape directive"),
        # In texts that only some versions take for texts.
        (f'FROM x\nRUN <<"E\\"\nE\\\nADD {REMOTE}', "begins with <<"),
        ("FROM x\nCOPY <<EOF /x\nhello\nEOF", "begins with <<"),
        ("FROM x\nRUN cat 3<<-EOF > /x\nhello\nEOF", "begins with <<"),
        # Later, in whoever builds on it, and in what nobody knows.
        (f"FROM x\nONBUILD ADD {REMOTE}", "ONBUILD is not taken"),
        (f"FROM x\nOnBuild\tADD {REMOTE}", "ONBUILD is not taken"),
        ("FROM x\nONBU\u0130LD RUN true", "no instruction that is taken"),
        ("FROM x\nINCLUDE http://127.0.0.1/", "no instruction that is taken"),
        # Of a base that nobody can look at.
        ("FROM $B", "which image FROM means"),
        ("ARG B\nFROM $B", "which image FROM means"),
        ("ARG B=x\nFROM ${B:-y}", "which image FROM means"),
        ("ARG B=x\nARG C=$B\nFROM $C", "which image FROM means"),
        ("ARG 1abc=x\nFROM $1abc", "which image FROM means"),
        ('FROM "x"', "which image FROM means"),
        ("FROM", "which image FROM means"),
    ],
)
def test_a_daemon_is_not_made_to_fetch_by_a_dockerfile(text: str, says: str) -> None:
    """In whatever way Docker's parser reads it."""
    found = dockerfile.faults(text, {})
    assert any(says in each for each in found), found


@table(
    "text",
    [
        'ARG V="1.2"\nFROM --platform=linux/amd64 x:${V}\n# added: ADD x y\nRUN echo ADD a b',
        "FROM x\nRUN a && \\\n  # why\n\n  b\nLABEL a=ADD\nENV ADD=1",
        "FROM x AS one\nRUN python3 -c 'print(1<<20)' <<< x\nFROM one\nCOPY --from=one /a /b",
        "FROM x\nRUN printf '\\\\'\nRUN printf 'a\\n' \\\n  ADD",
        '# syntax=docker/dockerfile:1\n\nFROM x\nHEALTHCHECK NONE\nshell ["/bin/bash", "-c"]',
        "FROM x\r\nRUN a \\\r\n b\r\n",
    ],
)
def test_a_dockerfile_that_does_not_fetch_is_taken(text: str) -> None:
    assert dockerfile.faults(text, {}) == []


def test_the_images_that_a_dockerfile_begins_with_are_known() -> None:
    text = (
        "ARG V=1\nARG N='b/c'\nFROM a:$V AS One\nARG V=2\nFROM ${N}@sha256:11\nFROM scratch\n"
        "FROM one\nFROM a:1\nFROM --platform=x d:${V}-e as two\n"
    )
    assert dockerfile.bases(text) == ["a:1", "b/c@sha256:11", "d:1-e"]
    assert dockerfile.faults_of_base("a:1", ["RUN true", "COPY . /x"]) == []
    [said] = dockerfile.faults_of_base("a:1", ["RUN true", "ADD\thttp://x /y"])
    assert said.startswith("a:1 adds to every build that begins with it: “ADD")


def test_files_beside_a_dockerfile_read_as_they_are_shown() -> None:
    found = text_boxes.build_files(
        "==> a.patch <==\n--- a/x\n+++ b/x\n\n==> run.sh <==\n#!/bin/sh\ntrue\n"
    )
    assert found == {"a.patch": "--- a/x\n+++ b/x\n", "run.sh": "#!/bin/sh\ntrue\n"}
    assert text_boxes.build_files(text_boxes.build_files_text(found)) == found
    assert text_boxes.build_files("") == {}
    with pytest.raises(WordsError, match="Begin each file"):
        text_boxes.build_files("text")
    with pytest.raises(WordsError, match="twice"):
        text_boxes.build_files("==> a <==\nx\n==> a <==\ny")


def test_another_dockerfile_makes_another_name() -> None:
    one = Launch(engine="vllm", image="x", checkpoint="y", dockerfile="FROM x\n")
    other = Launch(engine="vllm", image="x", checkpoint="y", dockerfile="FROM z\n")
    name = inventory.name_build("glm-5", one)
    assert name.startswith("inferdash/glm-5:")
    assert inventory.is_built_here(name)
    assert inventory.name_build("glm-5", other) != name
    assert not inventory.is_built_here("vllm/vllm-openai:v0.20.2")


def test_a_build_tells_its_steps_and_little_of_the_pull_of_its_base() -> None:
    heard = BuildAnswer()
    assert heard.hear({"stream": "Step 2/5 : RUN true"}).step == 2
    assert heard.hear({"stream": "Step 2/5 : RUN true"}).steps == 5
    assert heard.hear({"stream": "hello\n"}).text == "hello\n"
    assert heard.hear(line("Downloading", "abc", current=1, total=2)).text == ""
    assert heard.hear({"status": "Pull complete", "id": "abc"}).text == "abc: Pull complete\n"
    assert heard.hear({"aux": {"ID": "sha256:1"}}).text == ""

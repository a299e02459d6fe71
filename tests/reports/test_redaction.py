"""What is private is nowhere in a report, and what is needed is."""

import json
from pathlib import Path

import pytest

from servers.judge.logs.diagnosis import report
from servers.judge.reports import document
from servers.judge.reports.document import build_paste
from servers.judge.reports.failure import FailureFacts, build_failure
from servers.judge.reports.memory import build_memory, judge_memory, reduce_snapshot
from servers.judge.reports.redaction import PrivateNames, Redactor
from servers.launch.engines.launch import Launch
from servers.launch.recipes import document as profiles
from servers.launch.redaction import MASK
from tests.cases import Cases, table
from tests.memory.scenes import MemoryScene
from tests.reports.planted import HARMLESS, PLANTED

LOGS = Path(__file__).parents[1] / "logs/diagnosis/logs"
NAMES = PrivateNames(
    secrets=["open-sesame"],
    # Two are ordinary words of logs as well.
    people=["hopper", "ada", "max", "ray"],
    hosts=["mark1", "rtx-basement", "box"],
    homes=["/home/hopper", "/srv/people/kay"],
    models=["navy/Cobol-7B", "compiler-prod"],
    words=["Acme Shipping"],
)


def redact(text: str) -> str:
    redactor = Redactor(NAMES)
    redactor.learn([text])
    return redactor.redact(text)


@table(("text", "private"), PLANTED)
def test_what_is_private_is_gone(text: str, private: tuple[str, ...]) -> None:
    said = redact(text)

    assert [each for each in private if each.lower() in said.lower()] == [], said
    assert said.count("\n") == text.count("\n")
    assert redact(said) == said, "once redacted it stays so"


@table("text", HARMLESS)
def test_what_tells_of_nobody_stays(text: str) -> None:
    assert redact(text) == text


def test_a_secret_of_several_lines_leaves_as_many() -> None:
    redactor = Redactor(PrivateNames(secrets=["one sesame\ntwo sesame"]))

    assert redactor.redact_lines(["a", "one sesame", "two sesame b"]) == ["a", MASK, f"{MASK} b"]


def test_the_same_is_the_same_everywhere_and_private_ranges_keep_their_shape() -> None:
    said = redact(
        "hopper@mark1:~$ scp /home/hopper/x 10.9.8.7: # 10.9.8.6, 172.18.0.9, ::ffff:10.9.8.7"
    )

    assert said == (
        "user1@host1:~$ scp /home/user1/x 10.0.0.1: # 10.0.0.2, 172.18.0.1, ::ffff:10.0.0.1"
    )


def test_a_name_that_is_a_word_is_hidden_where_it_is_a_name_and_that_is_told() -> None:
    redactor = Redactor(NAMES)
    text = "max tokens; user 'max' in /home/max/x; max@mark1:~$; ray start"
    redactor.learn([text])

    assert redactor.redact(text) == (
        "max tokens; user 'user1' in /home/user1/x; user1@host1:~$; ray start"
    )
    assert redactor.unsure == ("max", "ray")


def test_nothing_planted_is_left_in_a_whole_report() -> None:
    lines = [line for text, _private in PLANTED for line in text.split("\n")]
    private = {each.lower() for _text, those in PLANTED for each in those} | {"open-sesame", "kay/"}
    everything = "\n".join([*lines, "open-sesame", "/srv/people/kay/models"])
    launch = Launch(
        engine="vllm",
        image="registry.navy.example:5000/team/vllm:v0.20.2",
        checkpoint="navy/Cobol-7B",
        flags=("--api-key", "sesame", "--served-model-name", "compiler-prod"),
        env={"OPENAI_API_KEY": "sesame-two", "NOTE": "open-sesame", "MASTER": "mark1"},
        volumes=("/home/hopper/models:/models:ro",),
        reasons={"--api-key": "hopper wants it"},
    )
    failure = build_failure(
        FailureFacts(
            lines=list(enumerate(everything.split("\n"), start=1)),
            docker_says=everything,
            launch=launch,
            said=everything,
            image=launch.image,
        ),
        Redactor(NAMES),
        truth=everything,
    )
    paste = build_paste(
        f"docker run vllm/vllm-openai a/b\n{everything}", Redactor(NAMES), truth="x"
    )
    scene = MemoryScene()
    scene.process(7, 3.0, name="python3", title="/home/hopper/bin/cobol-7b --api-key sesame")
    scene.shm = [{"path": "/dev/shm/hopper", "bytes": 1, "mapped": True}]
    memory = build_memory(
        [reduce_snapshot(each) for each in scene.for_(10)],
        Redactor(NAMES),
        gpu="GPU-1",
        truth=everything,
    )

    for made in (failure, paste, memory):
        text = document.write(made)
        assert [each for each in private if each in text.lower()] == []
        assert document.write(document.read(text)) == text


def test_a_launch_of_a_report_can_be_read_again() -> None:
    launch = Launch(
        engine="vllm",
        image="vllm/vllm-openai:v0.20.2",
        checkpoint="Qwen/Qwen3-8B",
        flags=("--max-model-len", "32768", "--api-key", "sesame"),
        env={"HF_TOKEN": "hf_" + "a1" * 20, "NCCL_DEBUG": "INFO"},
        volumes=("/home/hopper/models:/models:ro",),
    )
    made = build_failure(FailureFacts(lines=[(1, "x")], launch=launch), Redactor(NAMES))
    said = "\n".join(made.texts("launch"))

    read = profiles.read(said, where="The report").launch
    assert read.flags == ("--max-model-len", "32768", "--api-key", MASK)
    assert read.env == {"HF_TOKEN": f"hf_{MASK}", "NCCL_DEBUG": "INFO"}
    assert read.volumes == ("/home/user1/models:/models:ro",)


@table(
    ("model", "text", "said"),
    [
        (
            "acme/Secret-7B-GGUF:Q4_K_M",
            "acme/Secret-7B-GGUF:Q4_K_M, models--acme--Secret-7B-GGUF, acme_Secret-7B-GGUF_secret-7b.gguf",
            "private-org1/private-model1-GGUF:Q4_K_M, models--private-org1--private-model1-GGUF, "
            "private-org1_private-model1-GGUF_private-model1.gguf",
        ),
        (
            "/models/Secret-7B/Q4-00001-of-00003.gguf",
            "load: /models/Secret-7B/Q4-00001-of-00003.gguf, the model of Secret-7B",
            "load: /models/private-model1/Q4-00001-of-00003.gguf, the model of private-model1",
        ),
        (
            "/cache/models--acme--Secret-7B/snapshots/0123",
            "acme/Secret-7B /cache/models--acme--Secret-7B/snapshots/0123",
            "private-org1/private-model1 /cache/models--private-org1--private-model1/snapshots/0123",
        ),
        ("/data/model", "the model in /data/model, model=/data/model", ""),
        ("acme/model", "the model acme/model", "the model private-org1/model"),
        ("sun", "sun of a sunday", "private-model1 of a sunday"),
        ("eagle", "--served-model-name eagle, eagle3 heads", "--served-model-name private-model1, eagle3 heads"),
    ],
)  # fmt: skip
def test_a_model_is_hidden_by_what_tells_of_it(model: str, text: str, said: str) -> None:
    assert Redactor(PrivateNames(models=[model])).redact(text) == (said or text)


def test_names_of_variables_are_hidden_and_values_whole() -> None:
    launch = Launch(
        engine="vllm",
        image="vllm/vllm-openai:v0.20.2",
        checkpoint="Qwen/Qwen3-8B",
        env={"ACME_URL": "x=y", "APP_PASSWORD": "correct horse", "MESSAGE": "two words"},
    )
    redactor = Redactor(PrivateNames(words=["acme", "image"]))

    said = "\n".join(build_failure(FailureFacts(lines=[], launch=launch), redactor).texts("launch"))

    read = profiles.read(said, where="The report").launch
    assert read.image == launch.image
    assert read.env == {"hidden2_URL": "x=y", "APP_PASSWORD": MASK, "MESSAGE": "two words"}


def test_redaction_changes_no_diagnosis() -> None:
    with Cases() as cases:
        for path in sorted(LOGS.glob("*.log")):
            lines = path.read_text().splitlines()
            redactor = Redactor(NAMES)
            redactor.learn(lines)
            with cases.named(path.stem):
                before, after = report(lines), report(redactor.redact_lines(lines))
                for key in ("engine", "phases", "outcome", "cause"):
                    assert after[key] == before[key]


@pytest.mark.parametrize(
    "part",
    [
        "a.",
        "1.",
        "1:",
        "a@",
        "/home/",
        "password=",
        "--api-key ",
        "docker login ",
        "x=eyJ",
        "'token': '",
    ],
)
def test_a_hostile_line_does_not_hang(part: str) -> None:
    assert redact(part * (30_000 // len(part)))


def test_each_key_of_a_paste_is_hidden() -> None:
    made = build_paste(
        "vllm serve a/b --api-key sesame-1 sesame-2 --port 8000",
        Redactor(),
        truth="sesame-2 is mine",
    )

    assert made.texts("paste") == [f"vllm serve a/b --api-key {MASK} {MASK} --port 8000"]
    assert made.truth == f"{MASK} is mine"


def test_of_shared_memory_only_what_nobody_uses_is_told_and_no_name() -> None:
    scene = MemoryScene()
    scene.shm = [
        {"path": "/dev/shm/acme used", "bytes": 1, "mapped": True},
        {"path": "/dev/shm/acme left", "bytes": 2, "mapped": False},
    ]
    reason = "used by no process any more: /dev/shm/acme left, /dev/shm/acme-gone …"
    told = [{"gpu": "GPU-1", "verdict": "residual", "reason": reason}]

    made = build_memory(
        [reduce_snapshot(each, told) for each in scene.for_(10)], Redactor(), gpu="GPU-1"
    )

    assert "acme" not in document.write(made)
    assert made.facts["said"].endswith("any more: /dev/shm/segment1, /dev/shm/… …")
    last = json.loads(made.texts("recording")[-1])
    assert last["shm"] == [{"path": "/dev/shm/segment1", "bytes": 2, "mapped": False}]
    assert judge_memory(made)


def test_a_recording_names_programs_and_nothing_of_their_command_lines() -> None:
    scene = MemoryScene()
    scene.process(7, 3.0, name="python3", title="/opt/bin/train --customer acme --key open-sesame")

    (line, *_more) = [json.dumps(reduce_snapshot(each)) for each in scene.for_(5)]

    assert '"train"' in line
    assert "acme" not in line

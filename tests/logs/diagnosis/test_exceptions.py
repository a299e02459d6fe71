"""An end by an exception that no entry knows: its own message, and the engine's frame that raised it."""

from servers.judge.logs.diagnosis import report
from servers.judge.logs.failure_catalog import Pattern, by_id
from servers.judge.logs.matching import LineIndex
from tests.cases import table

FRAME = (
    '  File "/usr/lib/python3/dist-packages/vllm/model_executor/models/plum.py", line 7, in forward'
)
BELOW = '  File "/usr/lib/python3/dist-packages/torch/nn/plum.py", line 9, in call'
SETS_UP = (
    '  File "/usr/lib/python3/dist-packages/vllm/entrypoints/plum.py", line 7, in init_app_state'
)
SERVES = '  File "/usr/lib/python3/dist-packages/vllm/entrypoints/openai/serving_models.py", line 9, in load'
STARTED = "Traceback (most recent call last):"
PLACE = "Raised in vllm/model_executor/models/plum.py, line 7, in forward."
CHAIN = "The above exception was the direct cause of the following exception:"

_CASES = {
    "message and frame": (
        [STARTED, FRAME, "    x()", "IndexError: plum"],
        f"IndexError: plum. {PLACE}",
    ),
    "the engine's frame, not the library's below": (
        [STARTED, FRAME, "    x()", BELOW, "    y()", "IndexError: plum"],
        f"IndexError: plum. {PLACE}",
    ),
    "any name of an exception": (
        [STARTED, FRAME, "    x()", "plum.PearRipened: 3"],
        f"plum.PearRipened: 3. {PLACE}",
    ),
    "none but its source": (
        [STARTED, FRAME, "    plum.pear(3)", "Exception"],
        f"Exception at “plum.pear(3)”. {PLACE}",
    ),
    "a message that begins in the next line": (
        [STARTED, FRAME, "    x()", "IndexError:", "plum is over"],
        f"IndexError: plum is over. {PLACE}",
    ),
    "the last of a chain": (
        [
            STARTED,
            FRAME,
            "    x()",
            "KeyError: 3",
            "",
            CHAIN,
            "",
            STARTED,
            FRAME,
            "    x()",
            "IndexError: plum",
        ],
        f"IndexError: plum. {PLACE}",
    ),
    "the cause of what says nothing": (
        [
            STARTED,
            FRAME,
            "    x()",
            "IndexError: plum",
            "",
            CHAIN,
            "",
            STARTED,
            FRAME,
            "    x()",
            "AssertionError",
        ],
        f"IndexError: plum. {PLACE}",
    ),
    "the inner one of a subprocess": (
        [
            "RuntimeError: Error raised in subprocess:",
            STARTED,
            FRAME,
            "    x()",
            "IndexError: plum",
        ],
        f"IndexError: plum. {PLACE}",
    ),
    "the inner one of a worker, as its parent repeats it": (
        [
            *[STARTED, BELOW, "    y()"],
            "RuntimeError: Worker failed with error 'plum is over', please check the stack trace "
            "above for the root cause",
        ],
        "plum is over. No known failure fits.",
    ),
    "what a capture of graphs says once more": (
        [
            *[STARTED, FRAME, "    x()", "IndexError: plum", "", CHAIN, ""],
            *[STARTED, BELOW, "    y()", "Exception: Capture cuda graph failed: plum"],
        ],
        f"IndexError: plum. {PLACE}",
    ),
    "a place is told": (
        [
            STARTED,
            FRAME.replace("models/plum", "layers/attention/plum"),
            "    x()",
            "IndexError: plum",
        ],
        "IndexError: plum. " + PLACE.replace("models/plum", "layers/attention/plum"),
    ),
    "a logger's, which shifts all of it": (
        [f"    {line}" for line in (STARTED, FRAME, "    x()", "IndexError: plum")]
        + ["(APIServer pid=1) INFO 11-21 10:00:00 [x.py:1] over"],
        f"IndexError: plum. {PLACE}",
    ),
    "not what Python ignored": (
        [
            "Exception ignored in: <function Plum.__del__ at 0x7f>",
            *[STARTED, BELOW, "    y()", "IndexError: old"],
            *[STARTED, FRAME, "    x()", "IndexError: plum"],
        ],
        f"IndexError: plum. {PLACE}",
    ),
    "the worker's, not the parent's": (
        [
            *[
                f"(Worker_TP1 pid=4) {line}"
                for line in (STARTED, FRAME, "    x()", "IndexError: plum")
            ],
            *[
                f"(EngineCore pid=2) {line}"
                for line in (STARTED, BELOW, "    y()", "IndexError: pear")
            ],
        ],
        f"IndexError: plum. {PLACE}",
    ),
    "a traceback that is cut": (
        [STARTED, FRAME, '    raise IndexError("plum is "', '                     "over")'],
        f"IndexError: plum is over. {PLACE}",
    ),
    "the program's own import, cut": (
        [
            STARTED,
            '  File "/usr/local/bin/vllm", line 3, in <module>',
            "    main()",
            FRAME,
            "    import plum",
        ],
        f"The log breaks off in a traceback, at “import plum”. {PLACE} No known failure fits.",
    ),
    "of the start, in a file of requests": (
        [STARTED, SETS_UP, "    x()", SERVES, "    y()", "IndexError: plum"],
        "IndexError: plum. Raised in vllm/entrypoints/openai/serving_models.py, line 9, in load.",
    ),
    "a notebook's frames": (
        [
            "File /opt/dist-packages/vllm/plum.py:7, in forward(x)",
            "----> 7 x()",
            "IndexError: plum",
        ],
        "IndexError: plum. Raised in vllm/plum.py, line 7, in forward.",
    ),
}


@table(("name", "lines", "summary"), [(name, *case) for name, case in _CASES.items()])
def test_an_unknown_exception_is_told_by_message_and_place(
    name: str, lines: list[str], summary: str
) -> None:
    told = report(lines)

    cause = told["cause"]
    part = by_id()[cause].says.removesuffix("{said}") if cause else ""
    assert (told["outcome"], told["summary"]) == ("failed", part + summary), name
    assert (cause is None) == summary.endswith("No known failure fits."), name
    assert told["evidence"]


_WITHOUT = {
    "of a place": (
        "v1/spec_decode/plum.py",
        "IndexError: plum",
        "Remove --speculative-config. Without it answers are the same, and slower.",
    ),
    "of a check": (
        "distributed/kv_transfer/kv_connector/plum.py",
        "AssertionError: plum",
        "Remove --kv-transfer-config. Without the connector.",
    ),
    "its own advice": (
        "v1/core/plum.py",
        "AssertionError: No plum is left, please raise --max-plums to 4. See the manual.",
        "Do what the message says: please raise --max-plums to 4.",
    ),
    "not what only tells more": (
        "v1/core/plum.py",
        "AssertionError: No plum. Consider passing CUDA_LAUNCH_BLOCKING=1",
        "Use another image: a newer one, or the one that worked.",
    ),
}


@table(("name", "path", "said", "fix"), [(name, *case) for name, case in _WITHOUT.items()])
def test_the_part_that_failed_and_the_message_tell_what_to_do(
    name: str, path: str, said: str, fix: str
) -> None:
    frame = f'  File "/usr/lib/python3/dist-packages/vllm/{path}", line 7, in step'

    assert report([STARTED, frame, "    x()", said])["fix"][0] == fix, name


def test_what_may_end_a_server_does_where_nothing_comes_after_it() -> None:
    served = "(APIServer pid=1) INFO:     Application startup complete."
    answers = '(APIServer pid=1) INFO:     10.0.0.4:5104 - "POST /v1/completions HTTP/1.1" 200 OK'
    hit = ["ERROR 01-01 00:00:00 [x.py:1] WorkerProc hit an exception."]
    ended = [served, answers, *hit, STARTED, FRAME, "    x()", "IndexError: plum"]

    assert report(ended)["summary"] == f"The code of this model failed: IndexError: plum. {PLACE}"
    assert report([*ended, answers])["outcome"] == "ready"


def test_only_lines_that_hold_a_pattern_s_words_are_looked_at() -> None:
    index = LineIndex(["a plum", "pears", "plum and plum", ""])
    words = [Pattern(regex=None, literals=(word,)) for word in ("plum", "pear", "fig")]  # type: ignore[arg-type]

    assert list(index.find(words[:1])) == [0, 2]
    assert list(index.find(words)) == [0, 1, 2]
    assert list(index.find(words[2:])) == []
    assert list(LineIndex([]).find(words)) == []


_REQUESTS = {
    "too long": "ValueError: This model's maximum context length is 4096 tokens. However, 5000 are asked for.",
    "refused by the form of requests": "fastapi.exceptions.RequestValidationError: [plum]",
    "refused where requests are read": (
        'Traceback (most recent call last):\n  File "/opt/dist-packages/vllm/sampling_params.py", '
        "line 7, in _verify_args\n    x()\nValueError: plum must be at least 0"
    ),
}


@table(("name", "text"), _REQUESTS.items())
def test_a_client_s_bad_request_is_no_end_of_the_server(name: str, text: str) -> None:
    assert report(text.split("\n"))["outcome"] == "unknown", name


@table(
    ("lines", "cause"),
    [
        (["mkdir: cannot create directory '/plum': Permission denied"], "system-refused"),
        (["Error: open /plum/pear.toml: no such file or directory"], "system-refused"),
        # It went on.
        (["error: plum: Permission denied", *[f"step {n}" for n in range(9)]], None),
        (["loading", "plum: pear is Permission denied to some"], None),
    ],
)
def test_the_last_word_of_other_programs_is_a_cause(lines: list[str], cause: str | None) -> None:
    assert report(lines)["cause"] == cause

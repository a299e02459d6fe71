"""How a first answer is judged: whether it is language, and whether it comes fast enough."""

from servers.host.runs.questions import CompletionResult
from servers.judge.runs.smoke_test import FirstAnswer, expects, noise
from servers.launch.engines.launch import Launch
from servers.launch.engines.other import can_chat
from tests.cases import table

SKY = "The sky is blue because air scatters short wavelengths of light more than long ones."


def judged(
    expected: dict[str, str] | None = None,
    before: float | None = None,
    *,
    alone: bool = True,
    **values: object,
) -> tuple[str, ...]:
    said = {"text": SKY, "tokens": 19, "finish": "stop", "rate": 33.0, **values}
    answer = CompletionResult(**said)  # type: ignore[arg-type]
    return FirstAnswer.judge(answer, expected or {}, before=before, alone=alone).remarks


@table(
    "text",
    [
        SKY,
        "天空是蓝色的，因为大气层中的空气分子会散射阳光中的短波长光线，即蓝光。",
        "空が青いのは、レイリー散乱によるものです。太陽の光には様々な色が含まれています。",
        "하늘이 파란 이유는 대기 중의 공기 분자가 햇빛을 산란시키기 때문입니다.",
        "Rayleigh scattering ∝ λ⁻⁴, so at λ ≈ 450 nm it is five times that of red (¾ µm).",
        "आकाश नीला दिखाई देता है क्योंकि वायु नीले प्रकाश को अधिक बिखेरती है।",
        "<think>\nOkay, the user wants to know why the sky is blue, in three sentences.",
        "## Why?\n\n1. **Light** is scattered.\n2. *Blue* most.\n3. That is all! ✅✅",
        "Hmm, hmm, hmm: let me think about what I think that I know of the sky.",
        "Blue.",
        "Air scatters:\n\n| colour | nm |\n|--------------------------|----|\n| blue | 450 |\n\n=====================",
        "",
    ],
)
def test_language_is_left_alone(text: str) -> None:
    assert noise(text) is None


@table(
    ("text", "says"),
    [
        ("!" * 64, "only repeats “!”"),
        ("the " * 40, "only repeats “the”"),
        ("sky" * 30, "only repeats “sky”"),
        ("\n\n/////////////////x/////////////////////", "only repeats “/”"),
        ("�� � �� wor �ld� �� �� ��", "has characters that could not be decoded"),
        # A model of random weights, as vLLM serves it.
        ("������������ Fr Fr FrBBBBBBBB" + " What" * 20, "gets stuck at “What”"),
        ("The sky is blue because of the aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "gets stuck at “a”"),
        ("1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. 12.", "has hardly any letters"),
        ('"}],{"":[]}}}(*&^%$#@)-=_+|;:.,<>{}[]', "has hardly any letters"),
        ("ologи鏈n的ΩΩ capt ธаreи的यह कि मेंที่คב של שלי إلى иив", "mixes letters of many alphabets"),
    ],
)
def test_noise_is_named(text: str, says: str) -> None:
    assert str(noise(text)) == f"its first answer {says}"
    assert judged(text=text, tokens=40, finish="length") == (f"its first answer {says}",)


def test_an_end_after_one_token_and_no_answer_at_all_are_told() -> None:
    assert judged(text="The", tokens=1) == ("it stopped after one token",)
    assert judged(text="", tokens=1) == ("it stopped without an answer",)
    assert judged(text="", tokens=64, finish="length") == (
        "its first answer is empty, after 64 tokens",
    )


def test_a_model_that_only_got_to_think_is_well() -> None:
    assert judged(text="Okay, so the user asks.", is_reasoning=True, finish="length") == ()


def test_a_refusal_is_no_fault_and_a_failure_is_one() -> None:
    assert judged(text="", error="The engine refused the request (400).", status=400) == ()
    assert judged(text="", error="It broke off: CUDA error") == (
        "its first answer failed: It broke off: CUDA error",
    )


def test_too_slow_is_said_with_what_is_expected() -> None:
    promised = {"tokens per second": "30-35"}

    assert judged(promised, rate=5.0) == ("5 tok/s; expected 30-35",)
    assert judged(promised, rate=4.96) == ("4.96 tok/s; expected 30-35",)
    assert judged(promised, rate=21.0) == ()
    assert judged(promised, rate=None) == ()
    assert judged(promised, rate=5.0, alone=False) == (), "others had their part of it"


def test_without_a_promise_the_last_good_run_is_the_measure() -> None:
    assert judged(before=33.2, rate=5.0) == ("5 tok/s; 33.2 the last time",)
    assert judged(before=33.2, rate=20.0) == ()
    assert judged({"tokens per second": "4-6"}, 33.2, rate=5.0) == ()


@table(
    ("name", "text", "least"),
    [
        ("tokens per second", "30-35", 30),
        ("tokens per second", "28.8 (512 tokens of code), 36.6", 28.8),
        ("Tok/s", "about 53", 53),
        ("tokens per second", "130 with MTP", 130),
        ("tokens per second", "2000 at 64 concurrent", None),
        ("tokens per second", "up to 120", None),
        ("tokens per second", "fast", None),
        ("tokens per second, published", "48", None),
        ("prompt tokens per second", "8000", None),
        ("first token", "0.3 s", None),
    ],
)
def test_only_figures_of_one_request_are_compared(
    name: str, text: str, least: float | None
) -> None:
    found = expects({name: text})

    assert (found[0] if found else None) == least


@table(
    ("engine", "flags", "env", "is_chat"),
    [
        ("vllm", ("--max-model-len", "4096"), {}, True),
        ("vllm", ("--task", "embed"), {}, False),
        ("vllm", ("--runner=pooling",), {}, False),
        ("vllm", ("--convert", "none"), {}, True),
        ("sglang", ("--is-embedding",), {}, False),
        ("llamacpp", ("--embedding", "--pooling", "mean"), {}, False),
        ("llamacpp", (), {"LLAMA_ARG_RERANKING": "1"}, False),
        ("llamacpp", (), {"LLAMA_ARG_RERANKING": "0"}, True),
    ],
)
def test_engines_for_other_tasks_are_known_by_their_flags(
    engine: str, flags: tuple[str, ...], env: dict[str, str], is_chat: bool
) -> None:
    launch = Launch(engine=engine, image="a", checkpoint="a/b", flags=flags, env=env)

    assert can_chat(launch) is is_chat

"""Rules on parallelism: whether a model can be divided over the GPUs."""

from collections.abc import Iterator, Mapping
from typing import Any

from servers.judge.messages import say
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.lint_rules import CheckHit, Fix, adapt_fix, list_checks
from servers.launch.engines.change import LaunchChange

# More of a GPU than this for weights leaves no room for a KV cache worth having.
WEIGHTS_SHARE = 0.92

_TP = "--tensor-parallel-size"
_PP = "--pipeline-parallel-size"
_EP = "--expert-parallel-size"


def _count_needed_gpus(facts: LaunchFacts) -> int | None:
    """GPUs on one machine. With data-parallel attention SGLang's replicas share theirs."""
    if facts.engine == "llamacpp":
        return None
    here = facts.number("--data-parallel-size-local", default=0)
    dp = 1 if _attention_replicas(facts) else here or facts.dp
    if facts.tp is None or facts.pp is None or dp is None or not facts.nodes:
        return None
    return -(-facts.tp * facts.pp * dp // facts.nodes)


def _gpus(facts: LaunchFacts) -> Iterator[CheckHit]:
    needed, there = _count_needed_gpus(facts), facts.gpu_count
    if needed is None or not there or needed <= there:
        return  # without any GPU it is an engine for the CPU
    fix = None
    if needed == facts.tp and _hold_weights(facts, there):
        fits = _find_fitting_size(facts, most=there)
        fix = _set(facts, f"The launch has {there} GPUs", {_TP: str(fits)}) if fits else None
    yield CheckHit(
        says=say("profiles.gpus-too-few", needed=_count(needed), there=_count(there)),
        about=_find_flag_name(facts, _TP),
        fix=fix,
    )


def _hold_weights(facts: LaunchFacts, gpus: int) -> bool:
    """Whether so many GPUs could hold the weights; True where that is not known."""
    memory = [gpu.memory for gpu in facts.used_gpus or () if gpu.memory is not None]
    weights = facts.subject.weights
    return not weights or not memory or weights <= WEIGHTS_SHARE * min(memory) * gpus


def _idle_gpus(facts: LaunchFacts) -> Iterator[CheckHit]:
    needed, there = _count_needed_gpus(facts), facts.gpu_count
    if needed is not None and there is not None and needed < there:
        yield CheckHit(
            says=say("profiles.gpus-idle", there=_count(there), needed=needed),
            about="gpus",
        )


def _heads(facts: LaunchFacts) -> Iterator[CheckHit]:
    tp, config = _attention_tp(facts), facts.subject.checkpoint_config
    if tp is None or tp < 2 or config is None or _divides(config, tp):
        return
    heads, kv_heads = _head_counts(config)
    what = f"{heads} attention heads" if heads and heads % tp else f"{kv_heads} key-value heads"
    fits = _find_fitting_size(facts, most=tp - 1)
    fix = {_TP: str(fits)} if fits and tp == facts.tp else None
    better = f"{fits} can." if fits else "Choose another size."
    yield CheckHit(
        says=say("profiles.heads-not-divisible", what=what, tp=tp, better=better),
        about=_find_flag_name(facts, _TP),
        fix=_set(facts, f"The model has {what}", fix) if fix else None,
    )


def _power_of_two(facts: LaunchFacts) -> Iterator[CheckHit]:
    tp = facts.tp
    if not tp or facts.engine == "llamacpp" or tp & (tp - 1) == 0:
        return
    if facts.subject.checkpoint_config is not None and any(
        _head_counts(facts.subject.checkpoint_config)
    ):
        return  # known better from the heads
    power = tp & -tp
    fix = None
    if facts.pp == 1:
        stages = {_TP: str(power), _PP: str(tp // power)}
        fix = _set(facts, "Most models divide by powers of two only", stages)
    yield CheckHit(
        says=say("profiles.tp-power-of-two", tp=tp, power=power, stages=tp // power),
        about=_find_flag_name(facts, _TP),
        fix=fix,
        unknown=("the checkpoint's config.json",),
    )


def _draft_tokens(facts: LaunchFacts) -> Iterator[CheckHit]:
    if facts.engine != "sglang" or facts.number("--speculative-eagle-topk", default=0) != 1:
        return
    steps = facts.number("--speculative-num-steps", default=0)
    tokens = facts.number("--speculative-num-draft-tokens", default=0)
    if steps and tokens and tokens != steps + 1:
        flag = "--speculative-num-draft-tokens"
        yield CheckHit(
            says=say("profiles.draft-tokens", drafted=steps + 1, tokens=tokens),
            about=_find_flag_name(facts, flag),
            fix=_set(facts, "SGLang drafts steps + 1 tokens", {flag: str(steps + 1)}),
        )


def _chunked_prefill(facts: LaunchFacts) -> Iterator[CheckHit]:
    chunk = facts.number("--chunked-prefill-size", default=0)
    if facts.engine != "sglang" or not chunk:
        return
    said = facts.number("--page-size", default=0)
    page = said or 64  # what the backends that set one choose by themselves
    if said is None or chunk % page == 0:
        return
    power = 1 << (chunk.bit_length() - 1)
    near = [each for each in (power, 2 * power) if abs(each - chunk) <= chunk * 0.05]
    better = near[0] if near and near[0] % page == 0 else -(-chunk // page) * page
    unknown = () if said else ("the page size",)
    code = "profiles.chunked-prefill-multiple"
    if not said:
        code = "profiles.chunked-prefill-page-unknown"
    yield CheckHit(
        says=say(code, chunk=chunk, page=page, better=better),
        about=_find_flag_name(facts, "--chunked-prefill-size"),
        fix=_set(facts, f"A multiple of {page}", {"--chunked-prefill-size": str(better)}),
        severity=None if said and _is_read(facts) else "warning",
        unknown=unknown if _is_read(facts) or facts.version else (*unknown, "the engine's version"),
    )


# The oldest release of SGLang in whose source these checks were read.
READ_SINCE = (0, 5, 12)


def _is_read(facts: LaunchFacts) -> bool:
    return facts.version is not None and facts.version >= READ_SINCE


def _flashinfer_cutlass_experts(facts: LaunchFacts) -> Iterator[CheckHit]:
    backend = facts.flag("--moe-runner-backend")
    if facts.engine != "sglang" or backend is None or backend.value != "flashinfer_cutlass":
        return
    if facts.ep is not None and facts.tp is not None and facts.ep not in (1, facts.tp):
        yield CheckHit(
            says=say("profiles.moe-flashinfer-cutlass-experts", tp=facts.tp, ep=facts.ep),
            about=_find_flag_name(facts, _EP),
            fix=_set(facts, "1 or the tensor-parallel size", {_EP: str(facts.tp)}),
            severity=None if _is_read(facts) else "warning",
            unknown=() if facts.version else ("the engine's version",),
        )


def _room_for_weights(facts: LaunchFacts) -> Iterator[CheckHit]:
    weights, gpus = facts.subject.weights, facts.used_gpus
    if not weights or not gpus or not facts.nodes:
        return
    memory = [gpu.memory for gpu in gpus]
    shares = _count_needed_gpus(facts) or len(gpus)
    if None in memory or facts.flag("--cpu-offload-gb") or shares > len(gpus):
        return
    share = weights / (shares * facts.nodes)
    least = min(each for each in memory if each is not None)
    if share > WEIGHTS_SHARE * least:
        yield CheckHit(
            says=say("profiles.weights-leave-no-room", share=share, memory=least),
            about="checkpoint",
        )


def _attention_tp(facts: LaunchFacts) -> int | None:
    """Over how many GPUs SGLang or vLLM divides the attention heads."""
    if facts.engine == "llamacpp" or facts.tp is None:
        return None
    replicas = _attention_replicas(facts) or 1
    return facts.tp // replicas if facts.tp % replicas == 0 else None


def _attention_replicas(facts: LaunchFacts) -> int | None:
    """How often SGLang repeats attention inside its tensor-parallel group; None: it does not."""
    if facts.engine != "sglang":
        return None
    if facts.flag("--attn-dp-size"):
        return facts.number("--attn-dp-size")
    return facts.dp if facts.flag("--enable-dp-attention") else None


def _head_counts(config: Mapping[str, Any]) -> tuple[int, int]:
    """Attention heads, key-value heads; 0 for what config.json does not say.

    Latent attention (DeepSeek, Kimi, GLM-5) has no key-value heads to divide.
    """
    text = config.get("text_config")
    if not isinstance(text, Mapping):
        text = config
    heads = _whole(text.get("num_attention_heads"))
    if text.get("kv_lora_rank"):
        return heads, 0
    return heads, _whole(text.get("num_key_value_heads", heads))


def _whole(value: object) -> int:
    """Some models say another number for each layer: then 0."""
    return value if isinstance(value, int) else 0


def _divides(config: Mapping[str, Any], tp: int) -> bool:
    """vLLM and SGLang divide the heads, and divide or repeat the key-value heads."""
    heads, kv_heads = _head_counts(config)
    is_kv_fine = not kv_heads or kv_heads % tp == 0 or tp % kv_heads == 0
    return heads % tp == 0 and is_kv_fine


def _find_fitting_size(facts: LaunchFacts, *, most: int) -> int | None:
    """The largest tensor-parallel size up to `most` that the model allows."""
    config = facts.subject.checkpoint_config
    for tp in range(most, 0, -1):
        if _divides(config, tp) if config is not None else tp & (tp - 1) == 0:
            return tp
    return None


def _find_flag_name(facts: LaunchFacts, name: str) -> str:
    typed = facts.flag(name)
    return typed.word if typed else "flags"


def _set(facts: LaunchFacts, reason: str, flags: Mapping[str, str]) -> LaunchChange | None:
    return adapt_fix(Fix(change=LaunchChange(set_flags=flags)), facts, reason=reason)


def _count(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


CHECKS = list_checks(
    {
        "gpus-too-few": _gpus,
        "gpus-idle": _idle_gpus,
        "heads-not-divisible": _heads,
        "tp-power-of-two": _power_of_two,
        "draft-tokens": _draft_tokens,
        "chunked-prefill-multiple": _chunked_prefill,
        "moe-flashinfer-cutlass-experts": _flashinfer_cutlass_experts,
        "weights-leave-no-room": _room_for_weights,
    }
)

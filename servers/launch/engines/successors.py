"""Successors of flags that an engine has dropped: what is written today for a name of an older version.

A list of flags says which names are gone since the one before it. What took their place is said
here, for every version that has the new name and no longer the old one, however it was listed.
Read from the engines' releases: vLLM 0.10.2 to 0.33.0, SGLang 0.5.12 to 0.5.23, llama.cpp 0c1e570.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Successor:
    """`write` are the names of today, "--new" or "--new=value"; of several any one may be meant.

    `says` is a sentence on what became of it where no name alone says so.
    """

    write: tuple[str, ...] = ()
    says: str = ""

    @property
    def only(self) -> str | None:
        """The one thing to write instead; None where that is for a person to decide."""
        return self.write[0] if len(self.write) == 1 else None


def _write(*write: str) -> Successor:
    return Successor(write=write)


def _explain(says: str) -> Successor:
    return Successor(says=says)


# Looked for in the newest release: there is nothing that does the same.
NOTHING = Successor()


_SPECULATION = "Speculation is one JSON value now: --speculative-config."
_ROPE = "--hf-overrides sets it now, as any other key of config.json."
_GUIDED = "It is a key of --structured-outputs-config now."
_EPLB = "It is a key of --eplb-config now."
_LONG = "--long-prefill-token-threshold says how much of a long prompt is read at once."
_V0 = "It belonged to vLLM's first engine (V0), which is gone."

_VLLM: Mapping[str, Successor] = {
    "--calculate-kv-scales": _explain("The scales come from the checkpoint, or are 1."),
    "--no-calculate-kv-scales": _explain("It never calculates them now."),
    "--max-num-partial-prefills": _explain(_LONG),
    "--max-long-partial-prefills": _explain(_LONG),
    "--override-attention-dtype": NOTHING,
    "--cuda-graph-sizes": _explain(
        "--cudagraph-capture-sizes lists them, and --max-cudagraph-capture-size bounds them."
    ),
    "--max-seq-len-to-capture": _explain(
        "Graphs are captured by batch size: --max-cudagraph-capture-size."
    ),
    "--max-context-len-to-capture": _explain(
        "Graphs are captured by batch size: --max-cudagraph-capture-size."
    ),
    "--disable-mm-preprocessor-cache": _write("--mm-processor-cache-gb=0"),
    "--enable-multimodal-encoder-data-parallel": _write("--mm-encoder-tp-mode=data"),
    "--override-pooler-config": _write("--pooler-config"),
    "--task": _explain("--runner and --convert say what the model is used for now."),
    "--rope-scaling": _explain(_ROPE),
    "--rope-theta": _explain(_ROPE),
    "--guided-decoding-backend": _write("--structured-outputs-config.backend"),
    "--guided-decoding-disable-fallback": _explain(_GUIDED),
    "--guided-decoding-disable-any-whitespace": _explain(_GUIDED),
    "--guided-decoding-disable-additional-properties": _explain(_GUIDED),
    "--num-redundant-experts": _explain(_EPLB),
    "--eplb-window-size": _explain(_EPLB),
    "--eplb-step-interval": _explain(_EPLB),
    "--eplb-log-balancedness": _explain(_EPLB),
    "--swap-space": _explain("Nothing is swapped to main memory now; see --kv-offloading-size."),
    "--preemption-mode": _explain("A preempted request is always computed again."),
    "--num-lookahead-slots": _explain("They follow from --speculative-config."),
    "--scheduler-delay-factor": _explain(_V0),
    "--disable-async-output-proc": _explain(_V0),
    "--num-scheduler-steps": _explain(_V0),
    "--multi-step-stream-outputs": _explain(_V0),
    "--use-v2-block-manager": _explain(_V0),
    "--logits-processor-pattern": _explain("--logits-processors names them instead."),
    "--enable-lora-bias": _explain("Adapters with a bias are refused now."),
    "--lora-extra-vocab-size": _explain("Adapters may add no words now."),
    "--enable-reasoning": _explain("--reasoning-parser alone switches it on."),
    "--worker-use-ray": _write("--distributed-executor-backend=ray"),
    "--engine-use-ray": _explain(_V0),
    "--speculative-model": _explain(_SPECULATION),
    "--num-speculative-tokens": _explain(_SPECULATION),
    "--ngram-prompt-lookup-max": _explain(_SPECULATION),
    "--ngram-prompt-lookup-min": _explain(_SPECULATION),
    "--device": _explain("The platform is found by itself."),
}

_PIECEWISE = "Graphs of the prefill are chosen with --cuda-graph-backend-prefill now."
_BY_ITSELF = "SGLang decides by itself."
_CP = "--cp-strategy says how the tokens are divided: interleave or zigzag."
_BS = "--cuda-graph-bs-prefill and --cuda-graph-max-bs-prefill say what is captured."

_SGLANG: Mapping[str, Successor] = {
    "--collect-tokens-histogram": _explain("--enable-metrics collects them by itself."),
    "--cuda-graph-bs": _write("--cuda-graph-bs-decode"),
    "--cuda-graph-max-bs": _write("--cuda-graph-max-bs-decode"),
    "--custom-sigquit-handler": _explain(
        "It was for programs that embed SGLang, not for a server."
    ),
    "--debug-tensor-dump-inject": _explain("It was for debugging SGLang itself."),
    "--disable-piecewise-cuda-graph": _write("--cuda-graph-backend-prefill=disabled"),
    "--enable-piecewise-cuda-graph": _explain(_PIECEWISE),
    "--enforce-piecewise-cuda-graph": _explain(_PIECEWISE),
    "--enable-breakable-cuda-graph": _write("--cuda-graph-backend-prefill=breakable"),
    "--piecewise-cuda-graph-compiler": _explain(_PIECEWISE),
    "--piecewise-cuda-graph-tokens": _explain(_BS),
    "--piecewise-cuda-graph-max-tokens": _explain(_BS),
    "--elastic-ep-rejoin": _write("--elastic-ep-join-mode=recover"),
    "--enable-deepep-waterfill": _write("--enable-waterfill"),
    "--enable-expert-distribution-metrics": _explain(
        "--expert-balancedness-report-mode says where it is reported."
    ),
    "--enable-nan-detection": NOTHING,
    "--enable-nsa-prefill-context-parallel": _write("--enable-prefill-cp"),
    "--enable-prefill-context-parallel": _write("--enable-prefill-cp"),
    "--nsa-prefill-cp-mode": _explain(_CP),
    "--prefill-cp-mode": _explain(_CP),
    "--hybrid-kvcache-ratio": _write("--swa-full-tokens-ratio"),
    "--keep-mm-feature-on-device": _explain("--mm-feature-transport says how they are handed on."),
    "--mamba-scheduler-strategy": _write("--mamba-radix-cache-strategy"),
    "--nsa-decode-backend": _write("--dsa-decode-backend"),
    "--nsa-prefill-backend": _write("--dsa-prefill-backend"),
    "--record-nolora-graph": _explain(_BY_ITSELF),
    "--no-record-nolora-graph": _explain(_BY_ITSELF),
    "--prefill-round-robin-balance": _explain("It had no effect in 0.5.12 either."),
    "--speculative-dflash-draft-window-size": _write("--speculative-draft-window-size"),
    "--speculative-skip-dp-mlp-sync": NOTHING,
    "--stream-output": _write("--incremental-streaming-output"),
    "--torchao-config": _explain("--quantization fp8 quantizes while loading."),
}

_LLAMACPP: Mapping[str, Successor] = {
    "--no-mmap": _write("--load-mode=none"),
    "--mmap": _write("--load-mode=mmap"),
    "--mlock": _write("--load-mode=mmap+mlock"),
    "--direct-io": _write("--load-mode=dio"),
    "-dio": _write("--load-mode=dio"),
    "--draft": _write("--spec-draft-n-max"),
    "--draft-n": _write("--spec-draft-n-max"),
    "--draft-max": _write("--spec-draft-n-max"),
    "--draft-min": _write("--spec-draft-n-min"),
    "--draft-n-min": _write("--spec-draft-n-min"),
    "--spec-ngram-size-n": _write(
        "--spec-ngram-simple-size-n",
        "--spec-ngram-map-k-size-n",
        "--spec-ngram-map-k4v-size-n",
        "--spec-ngram-mod-n-match",
    ),
    "--spec-ngram-size-m": _write(
        "--spec-ngram-simple-size-m",
        "--spec-ngram-map-k-size-m",
        "--spec-ngram-map-k4v-size-m",
    ),
    "--spec-ngram-min-hits": _write(
        "--spec-ngram-simple-min-hits",
        "--spec-ngram-map-k-min-hits",
        "--spec-ngram-map-k4v-min-hits",
    ),
}

SUCCESSORS: Mapping[str, Mapping[str, Successor]] = {
    "vllm": _VLLM,
    "sglang": _SGLANG,
    "llamacpp": _LLAMACPP,
}
# In an older release a name that it does not have may only be younger.
_SINCE: Mapping[str, tuple[int, ...]] = {"vllm": (0, 20), "sglang": (0, 5, 13)}
# What two dropped flags say together.
_PAIRS: Mapping[frozenset[str], Successor] = {
    frozenset(("--no-mmap", "--mlock")): _write("--load-mode=mlock"),
}

# The same under the names of other engines, and of habit: own name, the others.
_CONTEXT = (
    "--max-model-len",
    "--context-length",
    "--ctx-size",
    "--max-seq-len",
    "--max-context-len",
    "--max-context-length",
    "--max-sequence-length",
    "--n-ctx",
    "--ctx-len",
    "--context-len",
    "--max-model-length",
    "--context-size",
)
_SYNONYMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "--max-model-len": _CONTEXT,
        "--tensor-parallel-size": ("--tp-size", "--tp"),
        "--pipeline-parallel-size": ("--pp-size", "--pp"),
        "--data-parallel-size": ("--dp-size", "--dp"),
        "--served-model-name": ("--alias",),
        "--max-num-seqs": ("--max-running-requests", "--max-num-sequences"),
        "--gpu-memory-utilization": ("--mem-fraction-static", "--gpu-memory-utilisation"),
        "--enforce-eager": ("--disable-cuda-graph",),
    },
    "sglang": {
        "--context-length": _CONTEXT,
        "--mem-fraction-static": ("--gpu-memory-utilization", "--gpu-memory-utilisation"),
        "--max-running-requests": ("--max-num-seqs",),
        "--tool-call-parser": ("--tool-parser",),
        "--disable-cuda-graph": ("--enforce-eager",),
        "--sleep-on-idle": ("--enable-sleep-on-idle", "--sleep-when-idle"),
    },
    "llamacpp": {
        "--ctx-size": (*_CONTEXT, "--ctx"),
        "--alias": ("--served-model-name",),
        "--parallel": ("--max-num-seqs", "--max-running-requests", "--n-parallel"),
        "--flash-attn": ("--flash-attention",),
    },
}


def find_successor(
    engine: str, name: str, *, release: tuple[int, ...] | None, beside: Collection[str] = ()
) -> Successor | None:
    """What became of a flag of an older version; None: nothing is known of such a name.

    `release` is that of the engine, None where it is not known; `beside` are the other flags.
    """
    since = _SINCE.get(engine)
    if release is not None and since is not None and release < since:
        return None
    for names, together in _PAIRS.items() if engine == "llamacpp" else ():
        if name in names and names <= {name, *beside}:
            return together
    return SUCCESSORS.get(engine, {}).get(name)


def find_partners(name: str, beside: Collection[str]) -> tuple[str, ...]:
    """The flags beside a dropped one that its successor says, too."""
    pairs = (names for names in _PAIRS if name in names and names <= {name, *beside})
    return tuple(sorted(each for names in pairs for each in names if each != name))


def find_synonym(engine: str, name: str) -> str | None:
    """This engine's name for what another engine, or a habit, calls otherwise; None: no such."""
    for own, others in _SYNONYMS.get(engine, {}).items():
        if name in others and name != own:
            return own
    return None

"""Advice in an exception's own message, and the part of an engine or the package that raised it."""

import re

from servers.judge.logs.evidence import EvidenceLine
from servers.judge.logs.exceptions import explain_place, list_frames

# Groups that this module adds to those of an entry that is asked of an exception.
ADVICE, PART_OF, PACKAGE = "advice", "part_of", "package"
GIVEN = frozenset({ADVICE, PART_OF, PACKAGE})

# What can be changed: a flag, a variable, a setting with its name or a package.
_OBJECT = r"(?:--[a-z][\w-]{2,60}|\b[A-Z][A-Z\d]{1,20}_[A-Z\d_]{2,60}\b|\b[a-z]\w{1,40}_\w{2,60}\b|pip install)"
_VERB = (
    r"(?:increas|decreas|rais|lower|reduc|adjust|chang|enabl|disabl|remov|add|pass|set|us|specify|"
    r"provid|upgrad|updat|install|switch|choos|turn|downgrad)(?:e|ing|ting)?\b"
)
_LEAD = r"(?:(?:please|try(?:ing)?|consider|you (?:can|should|must|need to|may)|either) (?:also |to )?)?"
_ADVICE = re.compile(
    rf"(?:^|[.,;:!(] {{0,2}}|\b(?:or|and) )(?P<told>{_LEAD}{_VERB} [^.;]{{0,120}}?{_OBJECT}[^;]{{0,160}}?)"
    r"(?=\.(?:\s|$)|;|$|\))",
    re.IGNORECASE,
)
# The only value that is allowed, told without a verb.
_ONLY = re.compile(
    r"\b(?P<told>[Oo]nly [\w-]{2,60} ?= ?[\w.-]{1,20} (?:is|are) (?:supported|allowed))"
)
# How to learn more, or whom to tell, is nothing to change.
_ABOUT_LOGS = re.compile(
    r"stack ?trace|root cause|report|file (?:a|an) (?:bug|issue)|TORCHDYNAMO|TORCH_LOGS|NCCL_DEBUG|"
    r"CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|AMD_SERIALIZE|DEVICE_SIDE|debug|verbose|PYTORCH_\w*ALLOC_CONF",
    re.IGNORECASE,
)

# Parts of an engine that are chosen or switched on, by the file that raised it.
_PARTS = (
    ("speculation", r"spec_decode/|/speculative/|/models/\w{0,40}(?:eagle|mtp|medusa|dflash)"),
    ("host_cache", r"/hi\w{0,10}cache|memory_pool_host|cache_controller|kv_offload/"),
    ("kv_connector", r"kv_transfer/|kv_connector|^(?:lmcache|nixl|mooncake)/"),
    ("adapters", r"/lora/|^peft/"),
    ("experts", r"moe_runner/|fused_moe|modular_kernel"),
    ("attention", r"/attention/|^flash_attn|^flashinfer/(?:decode|prefill|mla)"),
)
_KNOWN_PARTS = tuple((name, re.compile(pattern)) for name, pattern in _PARTS)
_LIBRARY = re.compile(r"([A-Za-z_]\w{1,40})/")


def find_advice(said: str) -> str:
    """What the message tells to change, without its full stop; "": nothing."""
    found = (each["told"] for finds in (_ADVICE, _ONLY) for each in finds.finditer(said))
    told = next((each for each in found if not _ABOUT_LOGS.search(each)), "")
    return told.strip(" .,:")


def read(line: EvidenceLine, said: str) -> dict[str, str]:
    """Some of GIVEN, of the exception in this line. Never fails."""
    place = explain_place(line)
    part = next((name for name, known in _KNOWN_PARTS if known.search(place)), "")
    frames = list_frames(line)
    library = _LIBRARY.match(frames[-1]) if frames else None
    found = {ADVICE: find_advice(said), PART_OF: part, PACKAGE: library[1] if library else ""}
    return {name: value for name, value in found.items() if value}

"""Tokens that nobody told inferdash of, known by their shape, taken out of what is stored."""

import re
from collections.abc import Iterable, Iterator
from itertools import batched

MASK = "••••••••"

# What a line must hold (looked for first, because that is fast), and the token. Group 1 stays: it
# tells whose token it was.
_SHAPES: tuple[tuple[bytes, bytes], ...] = (
    # inferdash's own (models.key)
    (b"ifd_", rb"(?<![A-Za-z0-9_])(ifd_)[A-Za-z0-9_-]{40,}"),
    # Hugging Face
    (b"hf_", rb"(?<![A-Za-z0-9_])(hf_)[A-Za-z0-9]{30,}"),
    (b"api_org_", rb"(?<![A-Za-z0-9_])(api_org_)[A-Za-z0-9]{30,}"),
    # OpenAI, and who names keys like it. Names with hyphens have no digit.
    (b"sk-", rb"(?<![A-Za-z0-9_-])(sk-)(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}"),
    # AWS: the key's id, and what stands beside it
    (b"AKIA", rb"(?<![A-Za-z0-9])(AKIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (b"ASIA", rb"(?<![A-Za-z0-9])(ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (b"ecret", rb"(?i)(aws_?secret_?access_?key[\"']?\s{0,4}[=:,]\s{0,4}[\"']?)[A-Za-z0-9/+=]{30,}"),
    (b"ECRET", rb"(AWS_SECRET_ACCESS_KEY[\"']?\s{0,4}[=:,]\s{0,4}[\"']?)[A-Za-z0-9/+=]{30,}"),
    (b"ession", rb"(?i)(aws_?session_?token[\"']?\s{0,4}[=:,]\s{0,4}[\"']?)[A-Za-z0-9/+=]{30,}"),
    (b"ESSION", rb"(AWS_SESSION_TOKEN[\"']?\s{0,4}[=:,]\s{0,4}[\"']?)[A-Za-z0-9/+=]{30,}"),
    # GitHub and GitLab
    *(
        (kind, rb"(?<![A-Za-z0-9])(" + kind + rb")[A-Za-z0-9]{30,}")
        for kind in (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_")
    ),
    (b"github_pat_", rb"(github_pat_)[A-Za-z0-9_]{30,}"),
    (b"glpat-", rb"(glpat-)[A-Za-z0-9_-]{20,}"),
    # NVIDIA's catalogue, Google, Slack
    (b"nvapi-", rb"(nvapi-)[A-Za-z0-9_-]{40,}"),
    (b"AIza", rb"(?<![A-Za-z0-9])(AIza)[A-Za-z0-9_-]{35}"),
    (b"xox", rb"(xox[abeprs]-)[A-Za-z0-9-]{10,}"),
    # Addresses that are keys: of Slack and Telegram
    (b"hooks.slack.com/", rb"(hooks\.slack\.com/[a-z]{1,20}/)[\w/+-]{4,}"),
    (b"/bot", rb"(/bot\d{5,15}:)[\w-]{8,}"),
    # Groq, Docker Hub, Tailscale, npm
    (b"gsk_", rb"(?<![A-Za-z0-9_])(gsk_)[A-Za-z0-9]{30,}"),
    (b"dckr_pat_", rb"(dckr_pat_)[A-Za-z0-9_-]{20,}"),
    (b"tskey-", rb"(tskey-[a-z]{2,12}-)[A-Za-z0-9-]{12,}"),
    (b"npm_", rb"(?<![A-Za-z0-9_])(npm_)[A-Za-z0-9]{30,}"),
    # An engine's own, which vLLM and SGLang log with their other arguments.
    (b"api_key", rb"(api_key[\"']?\s{0,4}[=:]\s{0,4}[\[(]?[\"'])(?:[^\s\"']|[\"'], ?[\"']){4,}(?=[\"'])"),
    (b"-api-key", rb"(-api-key[\"']?(?:[=:,]\s{0,4}|\s{1,4})[\"']?)(?!-)(?=[^\s\"']{0,100}\d)[^\s\"',]{8,}"),
    # Headers: with the header's name anything is one, without it only what is no word.
    *(
        (part, rb"(?i)(authorization[\"']?\s{0,4}[:=,]\s{0,4}(?:b(?=[\"']))?[\"']?(?:(?:bearer|basic|token|api-?key)\s{1,4}|))"
         rb"(?!(?:bearer|basic|token|api-?key)\s)[^\s\"',;]{4,}")
        for part in (b"uthorization", b"UTHORIZATION")
    ),
    *(
        (part, rb"(?i)(?<![a-z])(bearer\s{1,4})(?:(?=[^\s\"']*\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})")
        for part in (b"earer", b"EARER")
    ),
    # https://ada:password@host
    (b"://", rb"(://[^/\s:@\"']{1,200}:)[^/\s@\"']{1,500}(?=@)"),
)  # fmt: skip
_KNOWN = tuple((part, re.compile(pattern)) for part, pattern in _SHAPES)
_MASKED = rb"\g<1>" + MASK.encode()
_AT_ONCE = 1000  # lines


def mask_tokens(lines: list[bytes]) -> list[bytes]:
    """The lines with what looks like a token replaced, but for the beginning that tells its kind.

    All are looked at together, so that a stream of lines without tokens costs next to nothing.
    """
    block = b"\n".join(lines)
    for part, pattern in _KNOWN:
        if part in block:
            lines = [pattern.sub(_MASKED, line) if part in line else line for line in lines]
    return lines


def mask_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """mask_tokens() of a whole log."""
    for some in batched(lines, _AT_ONCE):
        yield from mask_tokens(list(some))

"""Answers of the scripted model."""

import random
import re
from collections.abc import Iterator

_TOLD: list[tuple[str, str, str]] = [
    (
        r"kv[ -]?cache|context|max.model.len",
        "They ask about the KV cache. Per token it is 2 × layers × KV heads × head size × bytes. Show "
        "the sum, then what follows for --max-model-len.",
        """The **KV cache** keeps keys and values of every token that is still in use, so that a new token costs one step \
instead of a whole pass.

Per token it takes

```
2 × layers × KV heads × head size × bytes
```

For a model with 64 layers, 8 KV heads of 128 and 16-bit values that is 256 KiB, so:

| context | KV cache of one request |
|---|---|
| 8,192 | 2 GiB |
| 32,768 | 8 GiB |
| 131,072 | 32 GiB |

What fits follows from what the weights leave. If a start fails here:

1. lower `--max-model-len` to what the engine says would fit,
2. or halve the cache with `--kv-cache-dtype fp8`,
3. or spread the weights over more GPUs.
""",
    ),
    (
        r"code|python|function|sort|write",
        "A short function with a docstring will do. Mention what it costs.",
        """Here is one that keeps the order of what it has seen:

```python
def unique(items):
    \"\"\"Each item once, in the order of its first appearance.\"\"\"
    seen = set()
    return [item for item in items if not (item in seen or seen.add(item))]
```

It looks at every item once, so it takes **O(n)** time, and memory for what is different.
""",
    ),
    (
        r"hello|hi\b|who are you|what are you",
        "A greeting. Say what I am: a script.",
        """Hello! I am **not a model**: this is inferdash's demo, and I am a script that streams at the pace of one. \
The page around me is the real one. Ask me about the *KV cache*, or for some *Python*.
""",
    ),
]
_ELSE = (
    "Nothing in the script fits this. Say so, and what would work.",
    """I am the demo's scripted model, so I have no answer of my own to that. What you see is real all the same:

- the answer is **streamed** through inferdash's web process,
- *time to first token* and *tokens/s* stand below it,
- the engine's figures count it, and the GPU works for it.

Ask me about the `KV cache`, or for some `Python`.
""",
)


def find_answer(question: str) -> tuple[str, str]:
    """What it thinks, and what it says."""
    for pattern, thought, told in _TOLD:
        if re.search(pattern, question, re.IGNORECASE):
            return thought, told
    return _ELSE


def split_tokens(text: str) -> Iterator[str]:
    """Pieces as a tokenizer makes them: a word with the space before it, or a part of a long one."""
    for word in re.findall(r"\s*\S+|\s+$", text):
        cut = 7 if len(word) > 11 else len(word)
        yield word[:cut]
        if word[cut:]:
            yield word[cut:]


def pauses(speed: float, seed: str) -> Iterator[float]:
    """Seconds before each token, for ever: never quite the same."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    while True:
        yield chance.gauss(1, 0.16) / speed if chance.random() > 0.02 else 3 / speed

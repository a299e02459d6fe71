"""The engine version of an image, as far as its name tells."""

import re

type Release = tuple[int, ...]

# Repositories whose tags are the engine's versions; a mirror keeps the last part of the name.
_REPOSITORIES = {
    "vllm": ("vllm-openai", "vllm-openai-cpu", "vllm-cpu", "vllm"),
    "sglang": ("sglang",),
}
# Their tags count container releases: 26.05-py3.
_OTHER_NUMBERS = ("nvcr.io/",)
_TAG = re.compile(r"v?([0-9]+\.[0-9]+(?:\.[0-9]+)?(?:\.?(?:post|rc)[0-9]+)?)(?:-.*)?")
_RELEASE = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})+)(?![0-9])")


def of_image(engine: str, image: str) -> str:
    """The version that the tag names: "0.5.12" for lmsysorg/sglang:v0.5.12-cu130.

    "" when it names none: latest, nightly, a digest, a fork's own image.
    """
    reference = image.partition("@")[0]
    path, _, tag = reference.rpartition(":")
    if not path or "/" in tag or reference.startswith(_OTHER_NUMBERS):
        return ""
    if path.rsplit("/", 1)[-1] not in _REPOSITORIES.get(engine, ()):
        return ""
    found = _TAG.fullmatch(tag)
    return found[1] if found else ""


def release(version: str) -> Release | None:
    """The numbers of a version, to compare: (0, 5, 10) for "0.5.10.post1" and "v0.5.10-cu130".

    None for what cannot be placed between releases: "", a development build, a commit.
    """
    found = _RELEASE.match(version)
    if found is None or "dev" in version:
        return None
    return tuple(int(number) for number in found[1].split("."))

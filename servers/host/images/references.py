"""Image references: their parts, and when two of them mean the same."""

from dataclasses import dataclass

# What a name without a registry is looked up in.
HUB = "docker.io"
_HUB_NAMES = ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")


@dataclass(frozen=True, kw_only=True)
class Reference:
    registry: str  # docker.io, ghcr.io, 127.0.0.1:5000
    repository: str  # library/debian, vllm/vllm-openai
    tag: str  # "" where a digest stands instead
    digest: str = ""  # sha256:…; "" where there is none

    @property
    def name(self) -> str:
        """Registry and repository as Docker shows them: without its own registry's name."""
        if self.registry != HUB:
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    def __str__(self) -> str:
        """As Docker shows it, always with tag or digest."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"

    def with_digest(self, digest: str) -> str:
        """The same repository by a digest."""
        return f"{self.name}@{digest}"

    @property
    def is_local(self) -> bool:
        """Whether its registry is on the box itself. Docker speaks plain HTTP to such a one."""
        host = self.registry.partition(":")[0]
        return host == "localhost" or host.startswith("127.")


def parse(text: str) -> Reference:
    """The parts of a reference as people write it. Whether it exists is its registry's to say.

    Rule: Docker's own. The first part is a registry when it holds a dot or a colon, or is
    localhost; a name of one part on Docker's own registry is below library/; no tag is latest.
    """
    rest, _at, digest = text.strip().partition("@")
    head, slash, tail = rest.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, path = head, tail
    else:
        registry, path = HUB, rest
    if registry in _HUB_NAMES:
        registry = HUB
    name, colon, tag = path.rpartition(":")
    repository, tag = (name, tag) if colon else (path, "latest")
    if registry == HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(
        registry=registry, repository=repository, tag="" if digest else tag, digest=digest
    )


def familiar(text: str) -> str:
    """The reference as Docker lists it; an image's id stays as it is."""
    return text if text.startswith("sha256:") else str(parse(text))

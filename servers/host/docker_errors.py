"""Docker's own error texts as sentences that a person can act on."""

import re

# Texts of Docker Engine 20.10 to 29; the first match wins.
_KNOWN: list[tuple[str, str, str]] = [
    (
        r"could not select device driver|nvidia-container-cli|no known GPU vendor",
        "no_gpu_driver",
        "Docker on this box cannot give GPUs to containers. Install the NVIDIA Container Toolkit "
        "and run `nvidia-ctk runtime configure --runtime=docker`, then restart Docker.",
    ),
    (
        r"port is already allocated|address already in use",
        "port_taken",
        "The port is taken on this box. Choose another one in the profile, or stop what uses it.",
    ),
    (
        r"bind source path does not exist: (?P<what>\S+)",
        "missing_mount",
        "{what} does not exist on this box. Create it, or change the profile's volumes.",
    ),
    (
        r"rlimit|setrlimit|ulimit",
        "rlimit",
        "This box does not grant a limit that the profile sets under ulimits, most often memlock. "
        "Remove it from the profile, or raise the limit of the Docker service.",
    ),
    (
        r"unknown or invalid runtime name:? ?(?P<what>\S*)|Unknown runtime specified (?P<what2>\S+)",
        "unknown_runtime",
        "Docker on this box has no runtime {what}. Leave the profile's runtime empty, or install it.",
    ),
    (
        r"executable file not found|no such file or directory: unknown|OCI runtime create failed.*exec",
        "no_program",
        "The image does not contain the program that the profile starts. Check that the engine "
        "fits the image, and the entrypoint.",
    ),
    (
        r"pull access denied|repository does not exist|insufficient_scope|unauthorized",
        "pull_denied",
        "The registry has no such image, or wants a login. Check the name, or run `docker login` "
        "on the box.",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|not found: manifest",
        "no_image",
        "The registry has no such tag. Check the image's tag in the profile.",
    ),
    (
        r"no matching manifest for (?P<what>\S+)",
        "wrong_platform",
        "This image is not made for {what}. Choose a tag for this box's processor.",
    ),
    (
        r"lookup |dial tcp|TLS handshake|request canceled|i/o timeout|connection refused",
        "no_network",
        "The registry cannot be reached from this box. Check its network, or load the image with "
        "`docker load`.",
    ),
    (r"no space left on device", "disk_full", "The disk of Docker is full. `docker system df` shows what uses it."),
    (r"network (?P<what>\S+) not found", "no_network_named", "Docker on this box has no network {what}. `docker network ls` lists them."),
    (r"[Nn]o such image:? ?(?P<what>\S*)", "no_image", "The image {what} is not on this box."),
    (r"invalid reference format", "bad_reference", "The image's name is not a valid reference."),
    (r"is already in use by container", "name_taken", "A container of that name exists and is not ours. Remove or rename it."),
    (r"permission denied.*docker|docker.*permission denied|Permission denied", "no_permission",
     "inferdash may not use Docker on this box. Add its user to the group docker and log in anew: "
     "`sudo usermod -aG docker $USER`."),
    (r"No such file or directory|Connection refused|FileNotFoundError|Error while fetching server API version",
     "daemon_down",
     "Docker Engine does not answer on this box. Install it (the package docker.io or docker-ce), or start it: "
     "`sudo systemctl start docker`."),
    (r"[Rr]ead timed out|timeout", "timeout", "Docker did not answer in time. It may be busy; it is asked again."),
]  # fmt: skip


class ContainerError(Exception):
    """What Docker refused, as a sentence for a person. `detail` is Docker's own text."""

    def __init__(self, sentence: str, *, kind: str = "other", detail: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.detail = detail


def translate(text: str, *, doing: str) -> ContainerError:
    """The error for Docker's text. `doing` says what was tried, for texts that are not known.

    Kinds are the second column above, "other" for a text that is in none of them.
    """
    for pattern, kind, sentence in _KNOWN:
        match = re.search(pattern, text)
        if match is not None:
            what = next((group for group in match.groupdict().values() if group), "")
            return ContainerError(
                sentence.format(what=what.strip("\"',.") or "of that name"), kind=kind, detail=text
            )
    return ContainerError(
        f"Docker refused {doing}: {text.strip() or 'no reason given'}", detail=text
    )

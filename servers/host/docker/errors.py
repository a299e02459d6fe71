"""Docker's own error texts as sentences that a person can act on."""

import re

# Texts of Docker Engine 20.10 to 29; the first match wins.
_KNOWN: list[tuple[str, str, str]] = [
    (
        r"could not select device driver|no known GPU vendor",
        "no_gpu_driver",
        "Docker on this box cannot give GPUs to containers. Install the NVIDIA Container Toolkit "
        "and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker.",
    ),
    (
        r"nvidia-container-cli: device error: (?P<what>[^:]+): unknown device"
        r"|unresolvable CDI devices (?P<what2>\S+)",
        "no_such_gpu",
        "This box has no GPU {what}. `nvidia-smi -L` lists them; choose others in the profile.",
    ),
    (
        r"nvidia-container-cli|libnvidia-ml\.so",
        "no_gpu_driver",
        "The NVIDIA driver of this box does not answer. Run `nvidia-smi` there: if it fails too, "
        "the driver is missing or needs a reboot.",
    ),
    (
        r"port is already allocated|address already in use|failed to bind (?:host )?port",
        "port_taken",
        "The port is taken on this box. Choose another one in the profile, or stop what uses it.",
    ),
    (
        r"bind source path does not exist: (?P<what>\S+)",
        "missing_mount",
        "{what} does not exist on this box. Create it, or change the profile's volumes.",
    ),
    (
        r"rlimit",
        "rlimit",
        "This box does not grant a limit that the profile sets under ulimits, most often memlock. "
        "Remove it from the profile, or raise the limit of the Docker service.",
    ),
    (
        r"unknown or invalid runtime name:? ?(?P<what>\S*)|Unknown runtime specified (?P<what2>\S+)",
        "unknown_runtime",
        "Docker on this box has no runtime {what}. Leave the profile's runtime empty, or install "
        "it; `docker info` lists those that are there.",
    ),
    (
        r"gathering device information while adding custom device \"(?P<what>[^\"]+)\"",
        "no_device",
        "This box has no device {what}. Remove it from the profile's devices.",
    ),
    (
        r"exec format error",
        "wrong_platform",
        "The image's programs are made for another processor. Choose a tag for this box's.",
    ),
    (
        r"exec: \"(?P<what>[^\"]+)\"|executable file not found",
        "no_program",
        "The image does not contain the program {what}, or it cannot be run. Check that the "
        "engine fits the image, and the profile's entrypoint.",
    ),
    (
        r"image is being used by|image has dependent child images|image is referenced in",
        "image_in_use",
        "The image is still used: by a container, or by another image that was made from it. "
        "Remove those first.",
    ),
    (
        r"no basic auth credentials|authentication required",
        "pull_denied",
        "The registry requires credentials for this image. An admin can add them under Images.",
    ),
    (
        r"toomanyrequests",
        "rate_limit",
        "The registry limits pulls without an account. Wait an hour, let an admin add "
        "credentials under Images, or run `docker login` on the box.",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|not found: manifest",
        "no_image",
        "The registry has no such tag. Check the image's tag in the profile.",
    ),
    (
        r"pull access denied|repository does not exist|insufficient_scope|unauthorized"
        r"|requested access to the resource is denied",
        "pull_denied",
        "The registry has no such image, or requires credentials for it. Check the name, let an "
        "admin add credentials under Images, or run `docker login` on the box.",
    ),
    (
        r"no matching manifest for (?P<what>\S+)",
        "wrong_platform",
        "This image is not made for {what}. Choose a tag for this box's processor.",
    ),
    (
        r"no space left on device",
        "disk_full",
        "The disk of Docker is full. `docker system df` shows what uses it, `docker image prune` "
        "removes images without a name.",
    ),
    (
        r"network (?P<what>\S+) not found",
        "no_network_named",
        "Docker on this box has no network {what}. `docker network ls` lists them; choose one in "
        "the profile, or create it.",
    ),
    (
        r"[Nn]o such container",
        "no_container",
        "The container is gone: somebody removed it.",
    ),
    (
        r"is not running|is already stopped",
        "not_running",
        "The container does not run any more.",
    ),
    (
        r"[Nn]o such image:? ?(?P<what>\S*)",
        "no_image",
        "The image {what} is not on this box. Start the server again: it is pulled then.",
    ),
    (
        r"invalid reference format|repository name must be lowercase|Invalid (?:index|repository) name"
        r"|Repository name cannot",
        "bad_reference",
        "The image's name cannot be one. It is written like registry.example/team/engine:tag, in "
        "small letters; correct it in the profile.",
    ),
    (
        r"container name \"/?(?P<what>[^\"]+)\" is already in use",
        "name_taken",
        "There is a container {what} that is not ours. Rename it, or remove it: "
        "`docker rm {what}`.",
    ),
    (
        r"PermissionError|Permission denied"
        r"|permission denied while trying to connect to the [Dd]ocker",
        "no_permission",
        "inferdash may not use Docker on this box. Add its user to the group docker, "
        "`sudo usermod -aG docker $USER`, log in anew and restart inferdash.",
    ),
    (
        r"No such file or directory|Connection refused|Connection reset|Broken pipe"
        r"|Remote end closed|closed the connection without|Cannot connect to the Docker daemon",
        "daemon_down",
        "Docker Engine does not answer on this box. Start it, `sudo systemctl start docker`, or "
        "install it: the package docker.io or docker-ce.",
    ),
    (
        r"lookup |dial tcp|TLS handshake|request canceled|i/o timeout|connection refused"
        r"|server gave HTTP response|connection reset by peer",
        "no_network",
        "The registry cannot be reached from this box. Check its network, or load the image with "
        "`docker load`.",
    ),
    (
        r"[Tt]imed out|[Tt]imeout",
        "timeout",
        "Docker did not answer in time. The box may be very busy: look at its load and its disks, "
        "then try again.",
    ),
]


class ContainerError(Exception):
    """What Docker refused, as a sentence for a person. `detail` is Docker's own text."""

    def __init__(self, sentence: str, *, kind: str = "other", detail: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.detail = detail

    @property
    def is_undecided(self) -> bool:
        """Whether Docker may have done it all the same, or may still do it."""
        return self.kind in ("daemon_down", "timeout", "name_reserved")


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


def port_taken(port: int, by: str, error: ContainerError) -> ContainerError:
    """The same error with the name of what has the port."""
    return ContainerError(
        f"Port {port} of this box is taken by {by}. Choose another one in the profile, or stop "
        "what uses it.",
        kind=error.kind,
        detail=error.detail,
    )

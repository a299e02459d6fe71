"""Exports: one profile, or files by which everything here starts with Docker alone."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from django.conf import settings
from django.utils import timezone

from servers.host.docker.containers import Mount, Spec
from servers.host.files import lookup, paths
from servers.host.files.box_files import BoxFiles
from servers.judge.images import dockerfile
from servers.judge.runs.limits import DROPPED
from servers.launch.commandline import export
from servers.launch.engines import ENGINES, placement
from servers.launch.engines.change import without_flags
from servers.launch.engines.engine import SECRET_FLAGS
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Volume, VolumeError
from servers.launch.recipes import document
from servers.launch.recipes.document import Document
from servers.lifecycle.runs.starts import SecretsError
from servers.models import Profile, Run, Secret, Server


def without_keys(launch: Launch) -> Launch:
    """Keys among the flags stay here, as the values of secrets do."""
    return replace(launch, flags=without_flags(launch.flags, tuple(SECRET_FLAGS)))


def document_of(profile: Profile, launch: Launch) -> Document:
    return Document(
        name=profile.name,
        notes=profile.notes,
        source=document.RecipeSource(url=profile.source),
        tags=tuple(profile.tag_list),
        secrets=tuple(sorted(launch.secret_env)),
        launch=replace(launch, secret_env={}),
    )


_SCRIPT = """\
#!/bin/bash
# {title}, as {what}.
set -eu
cd "$(dirname "$0")"
if [ -e {slug}.env ]; then set -a; . ./{slug}.env; set +a; fi
{command}"""


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    path: str  # below the folder
    text: str
    is_secret: bool = False  # for its owner's eyes only


@dataclass(frozen=True, kw_only=True)
class _ExportedServer:
    """A server as the README tells of it."""

    server: Server
    launch: Launch
    remarks: tuple[str, ...] = ()


def files(*, with_secrets: bool) -> list[ExportedFile]:
    """For every server and every profile. Raises SecretError where a value cannot be read."""
    servers = Server.objects.present().with_details().order_by("box__slug", "slug")
    left = [_export_server(server) for server in servers if not server.is_watched]
    watched = [server for server in servers if server.is_watched]
    profiles = list(Profile.objects.active().exclude(current=None).select_related("current"))
    found = [ExportedFile(path="README.md", text=_readme(left, watched, profiles, with_secrets))]
    for each in left:
        found += _of_server(each, with_secrets=with_secrets)
    for profile in profiles:
        launch = without_keys(profile.launch)
        found += _commands("profiles", profile.slug, profile.name, "its profile says", launch)
        text = document.write(document_of(profile, launch))
        found.append(ExportedFile(path=f"profiles/{profile.slug}.yaml", text=text))
    return found


def _export_server(server: Server) -> _ExportedServer:
    """As it runs now, or would be started: with its own GPUs, port, mounts and image."""
    launch = server.launch
    run, box = server.run, server.box
    remarks = []
    try:
        site = placement.Site(home=box.home, hf_cache=box.hf_cache)
        mounts = tuple(map(_mount, placement.volumes(launch, site)))
        launch = replace(launch, volumes=mounts, mount_hf_cache=False)
    except VolumeError as error:
        remarks.append(f"Its mounts stand as in the profile: {error}")
    if run is not None and run.is_active and not run.is_waiting:
        launch = replace(launch, gpus=run.gpus or launch.gpus)
    if launch.network == "bridge" and run is not None and run.port and not launch.host_port:
        launch = replace(launch, host_port=run.port)  # where its clients know it
        if not run.is_active:
            remarks.append(f"Its last run answered at port {run.port}, so this is in its script.")
    if not launch.privileged:
        remarks.append(
            "inferdash took rights from its container that Docker gives by itself: "
            f"--cap-drop {' --cap-drop '.join(DROPPED)} --security-opt no-new-privileges."
        )
    if _is_built(launch):
        remarks.append(
            f"Its image was built here. Where it is missing, build it first:\n"
            f"`docker build -t {launch.image} servers/{server.slug}.build`"
        )
    if launch.free_memory or launch.drop_cache:
        remarks.append("inferdash looked before each start whether its memory was free.")
    if launch.restart or launch.start_with_box:
        remarks.append("inferdash started it again by itself; Docker does by --restart alone.")
    if launch.start_on_request:
        remarks.append("inferdash’s gateway started it when it was requested.")
    return _ExportedServer(server=server, launch=launch, remarks=tuple(remarks))


def _is_built(launch: Launch) -> bool:
    """Whether its image comes from a Dockerfile, with files whose names stay in their folder."""
    text = launch.dockerfile
    return bool(text) and not dockerfile.faults(text, launch.build_files)


def _mount(volume: Volume) -> str:
    return f"{volume.source}:{volume.target}{':ro' if volume.read_only else ''}"


def _of_server(each: _ExportedServer, *, with_secrets: bool) -> Iterator[ExportedFile]:
    slug = each.server.slug
    launch = each.launch if with_secrets else without_keys(each.launch)
    is_running = each.server.run is not None and each.server.run.is_active
    what = "it runs now" if is_running else "it would be started"
    for file in _commands("servers", slug, each.server.profile.name, what, launch):
        yield replace(file, is_secret=with_secrets)
    if _is_built(launch):
        for name, text in {"Dockerfile": launch.dockerfile, **launch.build_files}.items():
            yield ExportedFile(path=f"servers/{slug}.build/{name}", text=text)
    if with_secrets and (values := _values(each)):
        text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
        yield ExportedFile(path=f"servers/{slug}.env", text=text, is_secret=True)


def _commands(
    folder: str, slug: str, title: str, what: str, launch: Launch
) -> Iterator[ExportedFile]:
    command = _detach(export.docker_run(launch, name=slug))
    script = _SCRIPT.format(title=" ".join(title.split()), what=what, slug=slug, command=command)
    yield ExportedFile(path=f"{folder}/{slug}.sh", text=script)
    yield ExportedFile(path=f"{folder}/{slug}.compose.yaml", text=export.compose(launch, name=slug))


def _detach(command: str) -> str:
    """In the background, as it was; the reasons above it may speak of docker run too."""
    lines = command.split("\n")
    first = next(number for number, line in enumerate(lines) if line.startswith("docker run"))
    lines[first] = lines[first].replace("docker run", "docker run --detach", 1)
    return "\n".join(lines)


def _values(each: _ExportedServer) -> dict[str, str]:
    kept = Secret.objects.in_bulk(list(each.launch.secret_env.values()))
    found = {name: kept[pk].reveal() for name, pk in each.launch.secret_env.items() if pk in kept}
    token = each.server.box.hf_token
    if (
        token is not None
        and each.launch.pass_hf_token
        and ENGINES[each.launch.engine].serves_models
    ):
        found.setdefault(export.HF_TOKEN, token.reveal())
    return found


def _readme(
    left: list[_ExportedServer], watched: list[Server], profiles: list[Profile], with_secrets: bool
) -> str:
    when = timezone.localtime().strftime("%Y-%m-%d %H:%M %Z")
    parts = [_HEAD.format(when=when)]
    parts.append("## Servers\n")
    parts += [_section(each, with_secrets=with_secrets) for each in left]
    if not left:
        parts.append("There are none.\n")
    if watched:
        names = ", ".join(f"`{server.slug}`" for server in watched)
        parts.append(f"Only monitored, and started elsewhere: {names}. Nothing changes for them.\n")
    parts.append("## Profiles\n")
    parts.append(
        f"{len(profiles)} in `profiles/`: each as a `docker run` line, as a compose file, and as "
        "YAML, which inferdash reads again (Profiles, New, Paste). Their mounts and GPUs are as "
        "written there, for no box in particular.\n"
    )
    parts.append(_TAIL)
    return "\n".join(parts)


_HEAD = """\
# How to go on without inferdash

Written at {when}. Nothing was stopped or changed: engines run on, with inferdash or without it.
"""

_TAIL = """\
## Then

`sudo make uninstall` (or Ctrl-C, where it was started by `make up`) ends inferdash; its data stay.
What goes with it: starting again after a failure or a restart of the box in an order that the
memory allows, logs that outlive their container, and the search for who holds which memory.
"""


def _section(each: _ExportedServer, *, with_secrets: bool) -> str:
    slug, run = each.server.slug, each.server.run
    said = [f"### {slug} on {each.server.box.slug}\n", _now(run, slug)]
    names = sorted(each.launch.secret_env)
    if each.launch.pass_hf_token and export.HF_TOKEN not in names:
        names.append(export.HF_TOKEN)
    if with_secrets:
        said.append(f"Its secrets stand in `servers/{slug}.env`, which the script reads.")
    elif names:
        listed = ", ".join(f"`{name}`" for name in names)
        said.append(
            f"It may want {listed}: set them in your shell, or in `servers/{slug}.env`. Keys among "
            "its flags were left out."
        )
    said += each.remarks
    said.append(
        f"\n```\nbash servers/{slug}.sh\n# or\n"
        f"docker compose -f servers/{slug}.compose.yaml -p {slug} up -d\n```\n"
    )
    return "\n".join(said)


def _now(run: Run | None, slug: str) -> str:
    if run is None or not run.is_active or not run.container_id:
        return "It does not run. To start it:"
    container = run.container_id[:12]
    where = f" and answers at port {run.port} of {run.address}" if run.port else ""
    image = f" Its image is `{run.start.image_digest}`." if run.start.image_digest else ""
    return (
        f"It runs as the container `{container}`{where}, and goes on without inferdash.{image} "
        f"`docker update --restart unless-stopped {container}` lets Docker start it after a restart "
        f"of the box; `docker stop {container}` ends it. To start it anew after that:"
    )


def check_files(spec: Spec, wanted: Mapping[str, str]) -> None:
    """`wanted` is the SHA-256 of files by their path in the container. Raises Refused.

    Only what a mount shows to the container anyway is read.
    """
    for path, digest in wanted.items():
        try:
            source, real = _on_box(spec, path)
            # Whether that may be mounted at all is checked with the container.
            files = BoxFiles(below=(source,), root=settings.HOST_ROOT)
            found = lookup.sha256(real, files)
        except (lookup.DigestError, paths.PathError) as error:
            raise SecretsError(f"{path}, which the profile depends on: {error}") from error
        if found != digest:
            raise SecretsError(
                f"{path} is not what the profile was made with. Its SHA-256 is {found}, "
                f"and the profile says {digest}. Put the right one there, or, if this is "
                "right, write its SHA-256 into the profile."
            )


def _on_box(spec: Spec, path: str) -> tuple[PurePosixPath, PurePosixPath]:
    """What is mounted, and the file in it, each where it lies in truth."""
    inside = PurePosixPath(path)
    around = [
        mount
        for mount in spec.mounts
        if mount.kind == "bind" and inside.is_relative_to(mount.target)
    ]
    if not around:
        raise SecretsError(
            f"The profile names the SHA-256 of {path}, and none of its volumes brings it into "
            "the container."
        )
    # As in the container: the innermost mount hides the others.
    mount: Mount = max(around, key=lambda each: len(PurePosixPath(each.target).parts))
    source = paths.resolve(mount.source, root=settings.HOST_ROOT)
    found = paths.resolve(str(source / inside.relative_to(mount.target)), root=settings.HOST_ROOT)
    if not found.is_relative_to(source):
        raise SecretsError(
            f"{path} is a link that leads out of {mount.source}, where the container cannot follow."
        )
    return source, found

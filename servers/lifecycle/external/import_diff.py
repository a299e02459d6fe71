"""The difference between a profile and the container or process that it was made of."""

import logging
from collections.abc import Iterable
from dataclasses import replace

from servers.host.docker.containers import ContainerError, kernels_volume
from servers.host.external.containers import ExternalContainer, StartedProcess
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.messages import say
from servers.launch.commandline import comparison
from servers.launch.commandline.comparison import ComparedField
from servers.launch.commandline.draft import Draft
from servers.launch.commandline.import_notes import ImportNote
from servers.launch.commandline.inspect import keep_variables, without_python
from servers.launch.engines import placement, usual_entrypoint
from servers.launch.engines.placement import Site, VolumeError
from servers.launch.spec import Spec
from servers.lifecycle.runs import creation, starts
from servers.lifecycle.runs.starts import SecretsError
from servers.models import Box, ImageFacts, Profile, ProfileImport, ProfileVersion
from servers.models.people.key import SecretError

log = logging.getLogger(__name__)

MOST_REMARKS = 40


def of_container(box: Box, other: ExternalContainer, made: Draft, version: ProfileVersion) -> None:
    """Raises ContainerError."""
    image = creation.docker().made_from(other.container.image_id)
    entrypoint = tuple(((image or {}).get("Config") or {}).get("Entrypoint") or ())
    spec = _spec(box, made, entrypoint, other.container.image_id)
    rows = comparison.of_container(other.inspected, image, spec, entrypoint) if spec else ()
    _keep(box, other.container.id, other.container.name, made, version, rows)


def of_process(
    box: Box, found: DiscoveredEngine, started: StartedProcess, made: Draft, version: ProfileVersion
) -> None:
    """A process can be monitored without Docker: then nothing is compared, and a remark says so."""
    rows: Iterable[ComparedField] = ()
    try:
        image = creation.docker().image(made.launch.image)
        entrypoint = image.entrypoint if image else usual_entrypoint(made.launch.image)
        if spec := _spec(box, made, entrypoint, image.id if image else ""):
            said, words = keep_variables(started.env or {}), without_python(started.argv)
            rows = comparison.of_process(words, said, spec, entrypoint)
    except ContainerError as error:
        note = ImportNote(kind="unresolved", says=str(say("external.not-compared", why=error)))
        made = replace(made, remarks=(*made.remarks, note))
    _keep(box, found.container, found.name, made, version, rows, identity=found.identity)


def follow(box: Box, running: Iterable[DiscoveredEngine]) -> None:
    """A process that is started anew, with the same words, keeps the profile of its last life."""
    lives = {each.container: each for each in running if each.is_process}
    known = ProfileImport.objects.filter(box=box).exclude(identity={})
    for each in known.exclude(container__in=lives).order_by("pk"):
        # One that was there beside it is another's.
        since = each.made_at.timestamp()
        heirs = [
            found
            for found in lives.values()
            if found.identity == each.identity and (found.started_at or 0) > since
        ]
        taken = ProfileImport.objects.filter(
            box=box, container__in=[found.container for found in heirs]
        )
        if len(heirs) == 1 and not taken.exists():
            each.container, each.name = heirs[0].container, heirs[0].name
            each.save(update_fields=["container", "name"])


def profile_of(box: Box, container: str) -> Profile | None:
    """The profile that was made of it, unless somebody has put that away."""
    found = ProfileImport.objects.filter(
        box=box, container=container, version__profile__archived_at=None
    ).select_related("version__profile__current")
    likeness = found.first()
    return likeness.version.profile if likeness else None


def _keep(
    box: Box,
    container: str,
    name: str,
    made: Draft,
    version: ProfileVersion,
    rows: Iterable[ComparedField],
    identity: dict[str, str] | None = None,
) -> None:
    remarks = [[each.kind, each.says] for each in made.remarks]
    ProfileImport.objects.update_or_create(
        box=box,
        container=container,
        defaults={
            "name": name,
            "identity": identity or {},
            "version": version,
            "rows": [row.to_json() for row in rows],
            "remarks": remarks[:MOST_REMARKS],
        },
    )


def _spec(box: Box, made: Draft, entrypoint: tuple[str, ...], image: str) -> Spec | None:
    """What a start would ask Docker for, as the profile's page shows it."""
    try:
        spec = placement.spec(
            made.launch,
            Site(
                home=box.home,
                hf_cache=box.hf_cache,
                hf_token=box.hf_token.reveal() if box.hf_token else "",
                secrets=made.secrets,
            ),
            name="",
            labels={},
            host_port=made.launch.host_port,
            entrypoint=entrypoint,
            kernels_volume=kernels_volume(image),
            known=ImageFacts.objects.flaglist_of(box, made.launch.engine, image),
        )
        return starts.harden(creation.docker(), spec, creation.read_limits())
    except (VolumeError, SecretError, SecretsError) as error:
        log.warning("What a profile would start cannot be compared: %s", error)
        return None

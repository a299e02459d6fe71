"""Inspection of images for their engine's version and flags, and the image inventory."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers import events
from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, Image
from servers.host.docker.throwaway import ContainerCommand, ContainerOutput
from servers.launch.engines import ENGINES, flaghelp
from servers.launch.engines.engine import Engine
from servers.launch.engines.flaghelp import HelpError
from servers.launch.engines.flaglist import FlagList
from servers.lifecycle.images import inventory, newer_builds, work
from servers.lifecycle.images.inventory import list_placed_servers
from servers.lifecycle.runs import creation
from servers.models import Box, ImageFacts, ImageInventory, Run
from servers.models.images import InspectionState
from servers.models.runs.run import RunState
from servers.watcher import box_row

log = logging.getLogger(__name__)

LOADING = (RunState.QUEUED, RunState.CREATING, RunState.STARTING)
AWAY = ("daemon_down", "no_permission")
# A full disk, or somebody in between: nothing that the image has said either.
NOT_ITS_FAULT = (*AWAY, "timeout", "disk_full", "no_container")
TRY_AGAIN_AFTER = 600.0  # seconds
LOADS_FIRST = "A model is loading, and it shares its memory with everything else on the box."
LONGEST_WORDS = 300  # characters of a program's own words in a sentence

_KILLED = {
    "late": "had not ended after {said.took:.0f} s and was killed",
    "long": "printed more than {kib} KiB and was killed",
    "memory": "wanted more than {gib} GiB of memory and was killed",
}


@dataclass(frozen=True, kw_only=True)
class Due:
    """An image on the box whose flags have to be asked for."""

    engine: Engine
    reference: str
    image: Image


class Postponed(Exception):
    """Not now, for the reason that the text says; "" when the watcher ends."""


class ImageInspector:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._is_tidy = False
        self._tried: dict[tuple[str, str], float] = {}  # in vain, and when
        # By engine and reference, as read at the beginning of a round: hundreds of profiles
        # must not cost hundreds of questions to the database every ten seconds.
        self._known: dict[tuple[str, str], ImageFacts] = {}
        self._seen: dict[str, Image | None] = {}  # what Docker last said of each

    def look(
        self, *, sample: Mapping[str, Any] | None, go_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Ask every image that is due. Whatever is left for later is due again then."""
        due: list[Due] = []
        try:
            if not self._is_tidy:
                throwaway.drop_leftovers(creation.docker())
                self._is_tidy = True
            pairs = list_images(self.box)
            self._known = ImageFacts.objects.map_by_image(self.box)
            ImageFacts.objects.forget_others(self._known, pairs)
            for engine, reference in pairs:
                due += self._looked_for(ENGINES[engine], reference)
            named = {reference for _engine, reference in pairs}
            self._seen = {name: image for name, image in self._seen.items() if name in named}
            box_row.note_images(self.box, self._seen)
            for each in due:
                self._take(each, sample, go_on)
        except ContainerError as error:
            # The container of a question may have stayed behind.
            self._is_tidy = False
            self._put_off(due, str(error))
            log.warning("Images cannot be asked for their flags: %s", error)
        except Postponed as reason:
            self._put_off(due, str(reason))

    def _looked_for(self, engine: Engine, reference: str) -> list[Due]:
        """The image, if it is here and due."""
        tried = self._tried.get((engine.key, reference))
        if tried is not None and time.monotonic() - tried < TRY_AGAIN_AFTER:
            return []
        try:
            image = creation.docker().image(reference)
        except ContainerError as error:
            self._note_trouble(engine, reference, error)
            return []
        self._seen[reference] = image
        if image is None:
            self._note(engine, reference, InspectionState.ABSENT)
            return []
        known = self._known.get((engine.key, reference))
        # What is no engine that inferdash knows has nothing to be asked.
        is_due = engine.serves_models and (known is None or known.is_due(image.id))
        # One at a time: until its turn has come it waits.
        asking = InspectionState.WAITING if is_due else InspectionState.DONE
        why = known.why if known and known.asking == asking else ""
        self._note(engine, reference, asking, why=why, entrypoint=list(image.entrypoint))
        return [Due(engine=engine, reference=reference, image=image)] if is_due else []

    def _take(self, due: Due, sample: Mapping[str, Any] | None, go_on: Callable[[], bool]) -> None:
        """One that is in trouble does not keep the others waiting."""
        try:
            self._ask(due, sample, go_on)
        except ContainerError as error:
            self._note_trouble(due.engine, due.reference, error)

    def _ask(self, due: Due, sample: Mapping[str, Any] | None, go_on: Callable[[], bool]) -> None:
        engine, image = due.engine, due.image
        twin = ImageFacts.objects.same_image(self.box, engine.key, image.id).first()
        if twin is not None and not twin.is_due(image.id):
            self._keep(due, twin.version, twin.flags, twin.error)
            return
        if not has_room(sample):
            raise Postponed(
                f"Less than {ContainerCommand.memory >> 30} GiB of memory is free on the box."
            )

        def may_go_on() -> bool:
            return go_on() and may_ask(self.box)

        if not may_go_on():
            raise Postponed("" if may_ask(self.box) else LOADS_FIRST)
        self._note(engine, due.reference, InspectionState.ASKING, entrypoint=list(image.entrypoint))
        try:
            version, flags, error = answer(engine, image, may_go_on)
        except Postponed:
            raise Postponed("" if may_ask(self.box) else LOADS_FIRST) from None
        self._keep(due, version, flags.to_json() if flags is not None else None, error)

    def _keep(self, due: Due, version: str, flags: dict[str, Any] | None, error: str) -> None:
        now = timezone.now()
        ImageFacts.objects.update_or_create(
            box=self.box,
            reference=due.reference,
            engine=due.engine.key,
            defaults={
                "image_id": due.image.id,
                "entrypoint": list(due.image.entrypoint),
                "version": version,
                "flags": flags,
                "count": len(flags["flags"]) if flags else 0,
                "error": error,
                "asked_at": now,
                "asking": InspectionState.DONE,
                "why": "",
                "since": now,
                "again_at": None,
                "changed_at": now,
            },
        )
        events.publish_change("images")

    def _note(self, engine: Engine, reference: str, asking: InspectionState, **values: Any) -> None:
        known = self._known.pop((engine.key, reference), None)
        if known is not None and not known.differs(asking, values):
            self._known[engine.key, reference] = known
        elif ImageFacts.objects.note(self.box, engine.key, reference, asking, **values):
            events.publish_change("images")

    def _note_trouble(self, engine: Engine, reference: str, error: ContainerError) -> None:
        """Raises the error again where it is every image's."""
        if error.kind in AWAY:
            raise error
        self._is_tidy = False
        self._tried[engine.key, reference] = time.monotonic()
        again_at = timezone.now() + timedelta(seconds=TRY_AGAIN_AFTER)
        self._note(engine, reference, InspectionState.TROUBLE, why=str(error), again_at=again_at)
        log.warning("%s cannot be asked for its flags: %s", reference, error)

    def _put_off(self, due: Sequence[Due], reason: str) -> None:
        """What was not asked in this round waits for another one."""
        open_ones = ImageFacts.objects.filter(
            box=self.box, asking__in=(InspectionState.WAITING, InspectionState.ASKING)
        ).values_list("engine", "reference")
        for engine, reference in set(open_ones) & {(d.engine.key, d.reference) for d in due}:
            self._note(ENGINES[engine], reference, InspectionState.WAITING, why=reason)


def list_images(box: Box) -> list[tuple[str, str]]:
    """Engine and image of whatever is to be asked on the box, each pair once."""
    launches = [server.profile.launch for server in list_placed_servers(box)]
    named = {(launch.engine, launch.image) for launch in launches}
    # And what is to be checked before any profile starts from it.
    return sorted(named | set(newer_builds.to_ask(box)))


def may_ask(box: Box) -> bool:
    """Not while something loads where GPUs and programs share their memory.

    A load there fills the memory to the brim and wins or loses by a few GiB.
    """
    cards = box.gpus
    # Nobody has looked yet: it may be such a box.
    shares_memory = cards is None or any(card.get("kind") == "unified" for card in cards)
    return not (shares_memory and Run.objects.filter(server__box=box, state__in=LOADING).exists())


def has_room(sample: Mapping[str, Any] | None) -> bool:
    """Whether a question's memory is free, as far as that is known."""
    available = ((sample or {}).get("meminfo") or {}).get("MemAvailable")
    return available is None or available > ContainerCommand.memory


def answer(
    engine: Engine, image: Image, go_on: Callable[[], bool]
) -> tuple[str, FlagList | None, str]:
    """The image's version ("" if it does not say), its flags, or a sentence why there are none.

    Raises Postponed, and ContainerError for what is not the image's fault.
    """
    told = _run_command(engine, image, engine.version_command, go_on)
    version = ""
    if isinstance(told, ContainerOutput) and told.exit_code == 0:
        version = flaghelp.version_in(engine, f"{told.errors}\n{told.output}")
    why = ""
    for command in engine.help_commands:
        said = _run_command(engine, image, command, go_on)
        if isinstance(said, ContainerOutput) and said.exit_code == 0:
            try:
                return version, flaghelp.flags_in(engine, said.output, version=version), ""
            except HelpError as error:
                why = why or str(error)
        else:
            why = why or (said if isinstance(said, str) else _refusal(said, command))
            if isinstance(said, ContainerOutput) and said.end != "ended":
                break  # another way would take as long, or as much
    return version, None, why


def _run_command(
    engine: Engine, image: Image, command: tuple[str, ...], go_on: Callable[[], bool]
) -> ContainerOutput | str:
    """What the command said, or Docker's sentence on why it could not even start."""
    question = ContainerCommand(
        image=image.id, words=flaghelp.list_image_flags(engine, command, image.entrypoint)
    )
    try:
        said = throwaway.ask(creation.docker(), question, go_on=go_on)
    except ContainerError as error:
        if error.kind in NOT_ITS_FAULT:
            raise
        return str(error)
    if said.end == "given_up":
        raise Postponed
    return said


def _refusal(said: ContainerOutput, command: tuple[str, ...]) -> str:
    shown = " ".join(command[:2] + ("…",) if "-c" in command else command)
    tried = f"“{shown}”, tried in a container without GPUs and network,"
    if said.end in _KILLED:
        how = _KILLED[said.end].format(
            said=said,
            kib=ContainerCommand.longest >> 10,
            gib=ContainerCommand.memory >> 30,
        )
        return f"{tried} {how}."
    lines = (said.errors.strip() or said.output.strip()).splitlines()
    last = f": {lines[-1].strip()[:LONGEST_WORDS]}" if lines else "."
    return f"{tried} ended with exit code {said.exit_code}{last}"


LOOK_EVERY = 30.0  # seconds
AFTER_A_START = 5.0  # since the last look, however many starts there are
# Adding up what images share costs Docker a walk over its layers.
SIZES_EVERY = 600.0


class ImageInventories:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._looked_at = float("-inf")
        self._sizes_at = float("-inf")
        self._is_changed = False

    def look_again(self) -> None:
        """At the next step: a job has ended."""
        self._is_changed = True

    def step(self) -> None:
        """Look if it is time or somebody wants it."""
        is_changed, self._is_changed = self._is_changed, False
        inventory.test_wanted(self.box, creation.docker())
        known, _is_new = ImageInventory.objects.get_or_create(box=self.box)
        age = time.monotonic() - self._looked_at
        is_due = age >= LOOK_EVERY or (age >= AFTER_A_START and self._has_started(known))
        if is_due or is_changed or known.is_wanted:
            self._look(known, is_asked=is_changed or known.is_wanted)

    def _has_started(self, known: ImageInventory) -> bool:
        """Whether a container of a run began since the last look: its image may be new here."""
        if known.looked_at is None:
            return True
        return Run.objects.filter(server__box=self.box, started_at__gt=known.looked_at).exists()

    def _look(self, known: ImageInventory, *, is_asked: bool) -> None:
        began = timezone.now()
        self._looked_at = time.monotonic()
        docker = creation.docker()
        with_sizes = is_asked or time.monotonic() - self._sizes_at >= SIZES_EVERY
        try:
            changed = work.find_prunable(self.box, docker, with_sizes=False)
            if with_sizes or changed:
                changed = work.find_prunable(self.box, docker, with_sizes=True) or changed
                self._sizes_at = time.monotonic()
            error = ""
        except ContainerError as failure:
            error, changed = str(failure), str(failure) != known.trouble
            log.warning("Images cannot be looked at: %s", failure)
        was_wanted = known.is_wanted
        ImageInventory.objects.filter(pk=known.pk).update(looked_at=began, trouble=error)
        if changed or was_wanted or known.looked_at is None:
            events.publish_change("images")

    def ask_registries(self, *, go_on: Callable[[], bool]) -> None:
        """If it is time. May take minutes: a registry may be far away, or not there."""
        if newer_builds.is_due(self.box):
            newer_builds.look(self.box, creation.docker(), go_on=go_on)

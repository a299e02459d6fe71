"""Asks the box's images for their engine's version and flags, one at a time, once an image."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone

from servers.engines import ENGINES, asked
from servers.engines.engine import Engine
from servers.engines.flaghelp import HelpError
from servers.engines.flaglist import FlagList
from servers.host import throwaway
from servers.host.containers import ContainerError, Image
from servers.host.throwaway import Question, Said
from servers.lifecycle import creation
from servers.models import Box, ImageFacts, Run, Server
from servers.models.run import State

log = logging.getLogger(__name__)

LOADING = (State.QUEUED, State.CREATING, State.STARTING)
AWAY = ("daemon_down", "no_permission")
# A full disk, or somebody in between: nothing that the image has said either.
NOT_ITS_FAULT = (*AWAY, "timeout", "disk_full", "no_container")
TRY_AGAIN_AFTER = 600.0  # seconds
LONGEST_WORDS = 300  # characters of a program's own words in a sentence

_KILLED = {
    "late": "had not ended after {question.seconds:.0f} s and was killed",
    "long": "printed more than {kib} KiB and was killed",
    "memory": "wanted more than {gib} GiB of memory and was killed",
}


class Postponed(Exception):
    """Not now: the watcher ends, or something begins to load."""


class Images:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._is_tidy = False
        self._tried: dict[tuple[str, str], float] = {}  # in vain, and when

    def look(
        self, *, sample: Mapping[str, Any] | None, go_on: Callable[[], bool] = lambda: True
    ) -> None:
        """Ask every image that is due. Whatever is left for later is due again then."""
        try:
            if not self._is_tidy:
                throwaway.drop_leftovers(creation.docker())
                self._is_tidy = True
            for engine, reference in placed(self.box):
                self._look_for(ENGINES[engine], reference, sample, go_on)
        except ContainerError as error:
            # The container of a question may have stayed behind.
            self._is_tidy = False
            log.warning("Images cannot be asked for their flags: %s", error)
        except Postponed:
            pass

    def _look_for(
        self,
        engine: Engine,
        reference: str,
        sample: Mapping[str, Any] | None,
        go_on: Callable[[], bool],
    ) -> None:
        """One that is in trouble does not keep the others waiting."""
        tried = self._tried.get((engine.key, reference))
        if tried is not None and time.monotonic() - tried < TRY_AGAIN_AFTER:
            return
        try:
            image = creation.docker().image(reference)
            if image is not None:
                self._look_at(engine, reference, image, sample, go_on)
        except ContainerError as error:
            if error.kind in AWAY:
                raise
            self._is_tidy = False
            self._tried[engine.key, reference] = time.monotonic()
            log.warning("%s cannot be asked for its flags: %s", reference, error)

    def _look_at(
        self,
        engine: Engine,
        reference: str,
        image: Image,
        sample: Mapping[str, Any] | None,
        go_on: Callable[[], bool],
    ) -> None:
        mine = ImageFacts.objects.filter(box=self.box, reference=reference, engine=engine.key)
        known = mine.defer("flags").first()
        if known is not None and not known.is_due(image.id):
            return
        twin = ImageFacts.objects.same_image(self.box, engine.key, image.id).first()
        if twin is not None and not twin.is_due(image.id):
            self._keep(engine, reference, image, twin.version, twin.flags, twin.error)
            return
        if not has_room(sample):
            raise Postponed

        def may_go_on() -> bool:
            return go_on() and may_ask(self.box)

        if not may_go_on():
            raise Postponed
        version, flags, error = answer(engine, image, may_go_on)
        said = flags.to_json() if flags is not None else None
        self._keep(engine, reference, image, version, said, error)

    def _keep(
        self,
        engine: Engine,
        reference: str,
        image: Image,
        version: str,
        flags: dict[str, Any] | None,
        error: str,
    ) -> None:
        ImageFacts.objects.update_or_create(
            box=self.box,
            reference=reference,
            engine=engine.key,
            defaults={
                "image_id": image.id,
                "version": version,
                "flags": flags,
                "count": len(flags["flags"]) if flags else 0,
                "error": error,
                "asked_at": timezone.now(),
            },
        )


def placed(box: Box) -> list[tuple[str, str]]:
    """Engine and image of every profile that can be started on the box, each pair once."""
    shown = Server.objects.shown().filter(box=box, profile__archived_at=None)
    launches = [
        server.profile.launch
        for server in shown.exclude(profile__current=None).select_related("profile__current")
    ]
    return sorted({(launch.engine, launch.image) for launch in launches})


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
    return available is None or available > Question.memory


def answer(
    engine: Engine, image: Image, go_on: Callable[[], bool]
) -> tuple[str, FlagList | None, str]:
    """The image's version ("" if it does not say), its flags, or a sentence why there are none.

    Raises Postponed, and ContainerError for what is not the image's fault.
    """
    told = _told(engine, image, engine.version_command, go_on)
    version = ""
    if isinstance(told, Said) and told.exit_code == 0:
        version = asked.version_in(engine, f"{told.errors}\n{told.output}")
    why = ""
    for command in engine.help_commands:
        said = _told(engine, image, command, go_on)
        if isinstance(said, Said) and said.exit_code == 0:
            try:
                return version, asked.flags_in(engine, said.output, version=version), ""
            except HelpError as error:
                why = why or str(error)
        else:
            why = why or (said if isinstance(said, str) else _refusal(said, command))
            if isinstance(said, Said) and said.end != "ended":
                break  # another way would take as long, or as much
    return version, None, why


def _told(
    engine: Engine, image: Image, command: tuple[str, ...], go_on: Callable[[], bool]
) -> Said | str:
    """What the command said, or Docker's sentence on why it could not even start."""
    question = Question(image=image.id, words=asked.words(engine, command, image.entrypoint))
    try:
        said = throwaway.ask(creation.docker(), question, go_on=go_on)
    except ContainerError as error:
        if error.kind in NOT_ITS_FAULT:
            raise
        return str(error)
    if said.end == "given_up":
        raise Postponed
    return said


def _refusal(said: Said, command: tuple[str, ...]) -> str:
    shown = " ".join(command[:2] + ("…",) if "-c" in command else command)
    tried = f"“{shown}”, tried in a container without GPUs and network,"
    if said.end in _KILLED:
        how = _KILLED[said.end].format(
            question=Question, kib=Question.longest >> 10, gib=Question.memory >> 30
        )
        return f"{tried} {how}."
    lines = (said.errors.strip() or said.output.strip()).splitlines()
    last = f": {lines[-1].strip()[:LONGEST_WORDS]}" if lines else "."
    return f"{tried} ended with exit code {said.exit_code}{last}"

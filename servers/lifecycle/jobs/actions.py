"""Actions on a box: asked for in a row by the web, done by the box's watcher.

Before it does anything the watcher looks again, and does only what it finds itself: whoever can
write rows still cannot have a process ended that no engine has left behind.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.utils import InterfaceError, OperationalError
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.kernel import processes, shm
from servers.host.kernel.processes import EndingError
from servers.host.kernel.shm import SharedSegment, ShmError
from servers.host.weights.deletion import DiscardError
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.memory.orphans import Orphan
from servers.judge.sizes import GIB, gib
from servers.lifecycle.external import WatchError, monitoring, takeover
from servers.lifecycle.external.monitoring import ProfileError
from servers.lifecycle.external.takeover import TakeOverError
from servers.lifecycle.images import work
from servers.lifecycle.memory import orphans
from servers.lifecycle.memory.orphans import ReclaimError
from servers.lifecycle.runs import adoption, creation
from servers.lifecycle.runs.adoption import AdoptionError
from servers.lifecycle.weights import deletion
from servers.models import Action, AuditEntry, Box, ModelInventory, Run, StoredCheckpoint, User
from servers.models.jobs.action import GOOD_FOR, ActionKind

log = logging.getLogger(__name__)

# Actions that threads of this process are at.
_aside: dict[int, threading.Thread] = {}

GONE = "It is not left behind any more: it has ended, or somebody was faster. Nothing was done."


@dataclass(frozen=True, kw_only=True)
class ActionResult:
    """What came of it. `event` is for the judge of the box's memory."""

    said: str
    command: str = ""
    is_done: bool = True
    event: Mapping[str, Any] | None = None


def ask(box: Box, kind: ActionKind, *, by: User, left: Orphan) -> bool:
    """Note a wish about what was left behind; False where somebody wants the same already."""
    return _ask(box, kind, by, target=left.key, what=left.what, details={"left": left.to_json()})


def ask_to_reclaim(box: Box, level: int, *, by: User) -> bool:
    return _ask(box, ActionKind.RECLAIM, by, what=f"memory of {box}", details={"level": level})


def ask_to_watch(box: Box, found: DiscoveredEngine, *, by: User) -> bool:
    details = {"container": found.container}
    return _ask(box, ActionKind.WATCH, by, target=found.key, what=found.name, details=details)


def ask_for_profile(box: Box, found: DiscoveredEngine, *, by: User) -> bool:
    details = {"container": found.container}
    return _ask(box, ActionKind.PROFILE, by, target=found.key, what=found.name, details=details)


def ask_to_take_over(box: Box, found: DiscoveredEngine, *, by: User) -> bool:
    details = {"container": found.container, "started_at": found.started_at}
    return _ask(box, ActionKind.TAKE_OVER, by, target=found.key, what=found.name, details=details)


def ask_to_delete(stored: StoredCheckpoint, *, by: User) -> bool:
    key = sha256(stored.path.encode()).hexdigest()[:16]
    details = {"path": stored.path}
    return _ask(stored.box, ActionKind.DELETE, by, target=key, what=stored.name, details=details)


def ask_to_pull(box: Box, reference: str, *, by: User) -> bool:
    key = sha256(reference.encode()).hexdigest()[:16]
    return _ask(box, ActionKind.PULL, by, target=key, what=reference, details={"image": reference})


def _ask(
    box: Box, kind: ActionKind, by: User, *, what: str, details: dict[str, Any], target: str = ""
) -> bool:
    with transaction.atomic():
        # One at a time: a second row would be obeyed, too.
        Box.objects.select_for_update().get(pk=box.pk)
        open_ones = Action.objects.filter(box=box, kind=kind, target=target)
        if open_ones.filter(state__in=(Action.State.ASKED, Action.State.DOING)).exists():
            return False
        Action.objects.create(
            box=box, kind=kind, target=target, what=what[:200], details=details, asked_by=by
        )
        AuditEntry.note(by, kind, what, box=box.slug)
    transaction.on_commit(partial(events.wake_watcher, box.slug, events.Topic.ACTIONS))
    transaction.on_commit(partial(partial(events.publish_change, "box"), box.pk))
    return True


def obey(
    box: Box, sample: Mapping[str, Any] | None, tell: Callable[[Mapping[str, Any]], None]
) -> bool:
    """Do what was asked for on this box, one after the other; whether there was anything.

    `tell` gets what the judge of the box's memory has to know.
    """
    # One that a watcher was at when it was ended: nobody knows how far it came.
    cut = box.actions.filter(state=Action.State.DOING).exclude(pk__in=list(_aside))
    cut.update(
        state=Action.State.REFUSED,
        said="inferdash was ended in the middle of it. Look whether it is done.",
        ended_at=timezone.now(),
    )
    asked = list(box.actions.filter(state=Action.State.ASKED).order_by("pk"))
    for action in asked:
        if not box.actions.filter(pk=action.pk, state=Action.State.ASKED).update(
            state=Action.State.DOING
        ):
            continue
        events.publish_change("box", box.pk)
        aside = _ASIDE.get(ActionKind(action.kind))
        if aside is not None and not _is_late(action):
            _aside[action.pk] = threading.Thread(
                target=_do_aside, args=[aside, box, action], daemon=True
            )
            _aside[action.pk].start()
            continue
        result = _result(box, action, sample)
        if result.event is not None:
            tell(result.event)
        _end(action, result)
    return bool(asked)


def wait_for_threads() -> None:
    """Until nothing is done aside any more."""
    for thread in list(_aside.values()):
        thread.join()


def _is_late(action: Action) -> bool:
    return timezone.now() - action.asked_at > GOOD_FOR


def _do_aside(work: Callable[[Box, Action], ActionResult], box: Box, action: Action) -> None:
    """In a thread of its own: what takes a minute or an hour must not keep a process from being
    ended."""
    try:
        _end(action, _came_of(work, box, action))
        if action.kind == ActionKind.DELETE:
            ModelInventory.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})
            events.publish_change("stock")
            events.wake_watcher(box.slug, events.Topic.STOCK)
    except (OperationalError, InterfaceError) as error:
        log.warning("The database is away, and does not hear of the end of %s: %s", action, error)
    finally:
        # What has no end in its row by now is told by obey().
        _aside.pop(action.pk)
        close_old_connections()


def _came_of(work: Callable[[Box, Action], ActionResult], box: Box, action: Action) -> ActionResult:
    try:
        return work(box, action)
    except (TakeOverError, DiscardError, ContainerError) as error:
        return _no(str(error), getattr(error, "command", ""))
    except Exception:
        # The thread's end must not leave a row behind that says for ever that it goes on.
        log.exception("%s broke", action)
        way_back = Action.objects.filter(pk=action.pk).values_list("command", flat=True).first()
        return _no(
            "inferdash itself failed in the middle of it; its log says how. Look whether it is done.",
            way_back or "",
        )


def _pull(box: Box, action: Action) -> ActionResult:
    reference = str(action.details.get("image"))
    if not work.is_used(box, reference):
        return _no(f"No server of {box} runs {reference}.")
    return ActionResult(said=work.pull(reference, partial(_tell, action)))


def _take_over(box: Box, action: Action) -> ActionResult:
    """An engine takes its time to end, and to give memory back."""
    taken = takeover.take_over(box, action, tell=partial(_tell, action))
    return ActionResult(said=taken.said, command=taken.way_back)


def _delete(box: Box, action: Action) -> ActionResult:
    """Some file systems take minutes to forget what is large."""
    return ActionResult(said=deletion.delete(box, action))


_ASIDE: dict[ActionKind, Callable[[Box, Action], ActionResult]] = {
    ActionKind.DELETE: _delete,
    ActionKind.PULL: _pull,
    ActionKind.TAKE_OVER: _take_over,
}


def _tell(action: Action, said: str) -> None:
    Action.objects.filter(pk=action.pk).update(said=said)
    events.publish_change("box", action.box_id)


def _end(action: Action, result: ActionResult) -> None:
    State = Action.State
    action.state = State.DONE if result.is_done else State.REFUSED
    action.said, action.command = result.said, result.command
    action.ended_at = timezone.now()
    action.save(update_fields=["state", "said", "command", "details", "ended_at"])
    word = f"{action.kind} {'done' if result.is_done else 'refused'}"
    AuditEntry.note(action.asked_by, word, action.what, box=action.box.slug, said=result.said)
    log.info("%s: %s", word, result.said)
    events.publish_change("box", action.box_id)


def _result(box: Box, action: Action, sample: Mapping[str, Any] | None) -> ActionResult:
    if _is_late(action):
        return _no(
            "It was requested more than a minute ago, while no watcher ran on the box, and much may "
            "have changed since. Nothing was done; try again."
        )
    try:
        if action.kind == ActionKind.WATCH:
            return _start_monitoring(box, action)
        if action.kind == ActionKind.PROFILE:
            return _import_profile(box, action)
        if action.kind == ActionKind.RECLAIM:
            return _reclaim_memory(box, sample, int(action.details.get("level") or 0))
        found = {each.key: each for each in orphans.look(box, sample)}
        left = found.get(action.target)
        if left is None:
            return _no(GONE)
        if action.kind not in left.actions:
            return _no(f"{left.why} Nothing was done.", left.command)
        return _VERBS[ActionKind(action.kind)](box, left, action)
    except ReclaimError as refusal:
        return _no(str(refusal), refusal.command)
    except _TROUBLE as error:
        return _no(str(error), _command(action))


_TROUBLE = (EndingError, ShmError, AdoptionError, WatchError, ProfileError, ContainerError)


def _import_profile(box: Box, action: Action) -> ActionResult:
    profile = monitoring.make_profile(box, str(action.details.get("container")), by=action.asked_by)
    action.details["profile"] = profile.slug
    return ActionResult(
        said=f"{profile} is the profile of {action.what}. Nothing of it was touched."
    )


def _start_monitoring(box: Box, action: Action) -> ActionResult:
    run = monitoring.watch(box, str(action.details.get("container")), by=action.asked_by)
    action.details["server"] = run.server.slug
    return ActionResult(
        said=f"{action.what} is monitored as {run.server}. Nothing of it was touched."
    )


def _no(said: str, command: str = "") -> ActionResult:
    return ActionResult(said=said, command=command, is_done=False)


def _command(action: Action) -> str:
    left = action.details.get("left") or {}
    return (
        f"sudo kill {int(left['pid'])}"
        if action.kind == ActionKind.KILL and left.get("pid")
        else ""
    )


def _kill(box: Box, left: Orphan, action: Action) -> ActionResult:
    ended = processes.end_process(
        left.pid, start=left.start, container=left.container or None, root=settings.KERNEL_ROOT
    )
    if not ended.by:
        return ActionResult(said=f"{_capital(left.what)} had ended by itself.")
    size = left.size or 0
    held = f" It held {gib(size)} of {left.size_of}." if size > GIB / 10 else ""
    how = "after SIGTERM" if ended.by == "SIGTERM" else "by SIGKILL, as it did not obey SIGTERM"
    return ActionResult(
        said=f"{_capital(left.what)} has ended {how}, within {ended.seconds:.1f} s.{held}"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _unlink(box: Box, left: Orphan, action: Action) -> ActionResult:
    wanted = [
        SharedSegment(path=path, bytes=0, mapped=False, inode=inode) for path, inode in left.files
    ]
    count, size = shm.delete(wanted, settings.HOST_ROOT)
    if not count:
        return _no(GONE)
    files = "1 file" if count == 1 else f"{count} files"
    return ActionResult(said=f"Deleted {files}: {gib(size)} of shared memory are free again.")


def _adopt(box: Box, left: Orphan, action: Action) -> ActionResult:
    run = adoption.adopt(box, left.container, by=action.asked_by)
    return ActionResult(
        said=f"The container is the run of {run.server} again; inferdash asks its engine whether "
        "it is ready."
    )


def _remove(box: Box, left: Orphan, action: Action) -> ActionResult:
    creation.docker().remove(left.container)
    Run.objects.filter(container_id=left.container).update(
        container_id="", container_was=left.container
    )
    return ActionResult(said=f"{_capital(left.what)} is removed.")


_VERBS: dict[ActionKind, Callable[[Box, Orphan, Action], ActionResult]] = {
    ActionKind.KILL: _kill,
    ActionKind.UNLINK: _unlink,
    ActionKind.ADOPT: _adopt,
    ActionKind.REMOVE: _remove,
}


def _reclaim_memory(box: Box, sample: Mapping[str, Any] | None, level: int) -> ActionResult:
    said = orphans.reclaim(box, sample, level)
    return ActionResult(said=said, event={"type": "reclaim", "level": level})

"""Image jobs: pulls, builds, tag moves and prunes, asked for in rows, done by the box's watcher.

Each is a thread of the watcher's: what takes an hour must hold nothing else up. A row that says
it is being done while no thread of this process does it was cut off with the one before.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import IntegrityError, close_old_connections, transaction
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.lifecycle.images import building, pulls, work
from servers.lifecycle.images.work import HeldError, ImageJobError, ImageWork
from servers.models import AuditEntry, Box, ImageJob, ProfileVersion, User
from servers.models.images.image_job import OPEN, ImageJobState

log = logging.getLogger(__name__)

State, Kind = ImageJob.State, ImageJob.Kind
# Docker shares its bandwidth among all; more at once make each of them slower.
AT_ONCE = 3
_UNBEGUN = "Cancelled before it had begun."
KEPT_FOR = timedelta(days=90)

_going: dict[int, tuple[ImageWork, threading.Thread]] = {}
_WORK: Mapping[str, Callable[[ImageWork], str]] = {
    Kind.PULL: pulls.pull,
    Kind.BUILD: building.build,
    Kind.MOVE: work.move_tag,
    Kind.PRUNE: work.prune,
}
_CUT = {
    Kind.PULL: "inferdash was ended in the middle of it.",
    Kind.BUILD: f"inferdash was ended in the middle of it. {building.STAYS}",
    Kind.MOVE: "inferdash was ended in the middle of it. Look which image the tag means now.",
    Kind.PRUNE: "inferdash was ended in the middle of it. The list shows what is still there.",
}


def ask_to_pull(box: Box, reference: str, *, by: User, digest: str = "") -> ImageJob | None:
    """None where somebody pulls the same already."""
    return _ask(box, Kind.PULL, by, reference=reference, digest=digest)


def ask_to_build(box: Box, reference: str, version: ProfileVersion, *, by: User) -> ImageJob | None:
    return _ask(box, Kind.BUILD, by, reference=reference, version=version)


def ask_to_move(box: Box, reference: str, image_id: str, *, by: User) -> ImageJob | None:
    return _ask(box, Kind.MOVE, by, reference=reference, images=[image_id])


def ask_to_prune(box: Box, images: list[str], *, by: User) -> ImageJob | None:
    return _ask(box, Kind.PRUNE, by, reference="", images=images)


def ask_again(job: ImageJob, *, by: User) -> ImageJob | None:
    """The same once more, after it has ended."""
    dismiss(job)
    return _ask(
        job.box, job.kind, by, reference=job.reference, digest=job.digest, version=job.version,
        images=job.images,
    )  # fmt: skip


def _ask(box: Box, kind: str, by: User, **values: Any) -> ImageJob | None:
    try:
        with transaction.atomic():
            job = ImageJob.objects.create(box=box, kind=kind, asked_by=by, **values)
            AuditEntry.note(by, f"{kind} image", job.reference or "unused images", box=box.slug)
    except IntegrityError:
        return None
    transaction.on_commit(partial(events.wake_watcher, box.slug, events.Topic.IMAGES))
    transaction.on_commit(partial(events.publish_change, "jobs"))
    return job


def dismiss(job: ImageJob) -> None:
    """Somebody has read what came of it: pages need not tell it any more."""
    ended = ImageJob.objects.filter(pk=job.pk).exclude(state__in=OPEN)
    ended.update(dismissed=True, changed_at=timezone.now())
    events.publish_change("jobs")


def may_change(job: ImageJob, person: User) -> bool:
    """Whether they may cancel it, or have it done once more."""
    return person.may_administer if job.kind == Kind.PRUNE else person.may_edit


def cancel(job: ImageJob, *, by: User) -> bool:
    """Whether it was still open."""
    open_one = ImageJob.objects.filter(pk=job.pk, state__in=OPEN, cancel_requested=False)
    if open_one.update(cancel_requested=True, changed_at=timezone.now()) != 1:
        return False
    AuditEntry.note(by, f"cancel {job.kind} of image", job.reference or "unused images")
    if job.state != State.DOING:
        # Nobody is at it, and its box may be silent for long.
        idle = ImageJob.objects.filter(pk=job.pk, state__in=(State.ASKED, State.HELD))
        now = timezone.now()
        idle.update(state=State.CANCELLED, said=_UNBEGUN, ended_at=now, changed_at=now)
    events.wake_watcher(job.box.slug, events.Topic.IMAGES)
    events.publish_change("jobs")
    return True


def go_on(job: ImageJob, *, by: User) -> bool:
    """Do what it was held for all the same; whether it was held."""
    held = ImageJob.objects.filter(pk=job.pk, state=State.HELD, cancel_requested=False)
    now = timezone.now()
    if held.update(state=State.ASKED, despite=True, asked_by=by, changed_at=now) != 1:
        return False
    AuditEntry.note(by, f"{job.kind} image despite", job.reference, held=job.said)
    events.wake_watcher(job.box.slug, events.Topic.IMAGES)
    events.publish_change("jobs")
    return True


def obey(box: Box) -> bool:
    """Begin what was asked for and end what is not wanted any more; whether anything has ended."""
    mine = ImageJob.objects.filter(box=box)
    for cut in mine.filter(state=State.DOING).exclude(pk__in=list(_going)):
        stays = f" {pulls.what_stays()}" if cut.kind == Kind.PULL else ""
        _end(cut, State.FAILED, _CUT[Kind(cut.kind)] + stays)
    for job in mine.filter(state__in=(State.ASKED, State.HELD), cancel_requested=True):
        _end(job, State.CANCELLED, _UNBEGUN)
    for pk in mine.filter(state=State.DOING, cancel_requested=True).values_list("pk", flat=True):
        if pk in _going:
            _going[pk][0].give_up()
    has_ended = False
    for pk, (_work, thread) in list(_going.items()):
        if not thread.is_alive():
            has_ended = True
            _going.pop(pk, None)
    for job in mine.filter(state=State.ASKED, cancel_requested=False).order_by("pk"):
        if len(_going) >= AT_ONCE:
            break
        _begin(job)
    return has_ended


def _begin(job: ImageJob) -> None:
    now = timezone.now()
    waiting = ImageJob.objects.filter(pk=job.pk, state=State.ASKED)
    fresh = {"said": "", "layers": [], "done": 0, "total": None, "is_whole": False, "rate": None}
    if waiting.update(state=State.DOING, begun_at=now, changed_at=now, **fresh) != 1:
        return
    job.refresh_from_db()
    work = ImageWork(job)
    thread = threading.Thread(target=_do, args=[work], name=f"image-{job.pk}", daemon=True)
    _going[job.pk] = work, thread
    events.publish_change("jobs")
    thread.start()


def forget_old(now: datetime | None = None) -> None:
    """What pulls and builds have come to long ago, and what builds have printed."""
    before = (now or timezone.now()) - KEPT_FOR
    ImageJob.objects.filter(ended_at__lt=before).exclude(state__in=OPEN).delete()


def wait_for_threads() -> None:
    """Until nothing is being done any more."""
    for _work, thread in list(_going.values()):
        thread.join()


def _do(work: ImageWork) -> None:
    job = work.job
    try:
        said = _WORK[job.kind](work)
        # The others end with an error then; of a prune, what it says has happened.
        is_cut = work.is_given_up and job.kind == Kind.PRUNE
        _end(job, State.CANCELLED if is_cut else State.DONE, said)
    except HeldError as held:
        _hold(job, str(held))
    except (ContainerError, ImageJobError) as error:
        if work.is_given_up:
            _end(job, State.CANCELLED, _describe_cancel(job))
        else:
            _end(job, State.FAILED, str(error))
    except Exception:
        # The thread's end must not leave a row behind that says for ever that it goes on.
        log.exception("%s broke", job)
        _end(job, State.FAILED, "inferdash itself failed here; its log says how. Try again.")
    finally:
        events.wake_watcher(job.box.slug, events.Topic.IMAGES)
        close_old_connections()


def _describe_cancel(job: ImageJob) -> str:
    if job.kind == Kind.PULL:
        return pulls.what_stays()
    return building.STAYS if job.kind == Kind.BUILD else ""


def _hold(job: ImageJob, why: str) -> None:
    doing = ImageJob.objects.filter(pk=job.pk, state=State.DOING)
    doing.update(state=State.HELD, said=why, changed_at=timezone.now())
    events.publish_change("jobs")


def _end(job: ImageJob, state: ImageJobState, said: str) -> None:
    now = timezone.now()
    open_one = ImageJob.objects.filter(pk=job.pk, state__in=OPEN)
    if open_one.update(state=state, said=said, ended_at=now, changed_at=now, rate=None) != 1:
        return
    word = {State.DONE: "done", State.CANCELLED: "cancelled"}.get(state, "failed")
    what = job.reference or "unused images"
    AuditEntry.note(
        job.asked_by, f"{job.kind} image {word}", what, box=job.box.slug, said=said[:500]
    )
    log.info("%s %s: %s", job, word, said)
    events.publish_change("jobs")
    events.publish_change("images")

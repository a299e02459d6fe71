"""Checks of a launch on a box, by the newest facts of the box."""

from dataclasses import dataclass, replace

from django.utils import timezone

from servers.judge.memory import holders
from servers.judge.profiles import features
from servers.judge.profiles.admission import LastGoodRun, weigh
from servers.judge.profiles.facts import BoxKind, LintFinding, Subject, TargetGpu
from servers.judge.profiles.features import MissingFeature
from servers.judge.profiles.lint import lint
from servers.judge.weights.fit.result import Estimate
from servers.launch.engines import parameters
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import knowledge as profiles_knowledge
from servers.lifecycle.profiles.knowledge import Knowledge, LaunchOnBox
from servers.lifecycle.weights import checkpoints
from servers.models import Box, CheckpointFacts, ImageFacts, Profile, Server


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """Findings, the worst first, and whether it fits: None without a box, or without GPUs."""

    subject: Subject
    findings: list[LintFinding]
    fit: Estimate | None

    @property
    def every(self) -> list[LintFinding]:
        """With the changes that would make it fit."""
        return [*self.findings, *profiles_knowledge.list_fit_findings(self.fit)]


def check_start(
    launch: Launch, box: Box | None, profile: Profile | None = None, server: Server | None = None
) -> CheckReport:
    """What is known of a start now, with the memory that its GPUs have free at this moment.

    With the server, what only that one holds counts as free; else what all of the profile's do.
    """
    if box is None:
        return anywhere(launch)
    start = LaunchOnBox(launch=launch, box=box, profile=profile, server=server)
    return of_start(start, Knowledge([start]))


def anywhere(launch: Launch) -> CheckReport:
    """What holds on every box."""
    asked = Subject(launch=launch)
    return CheckReport(subject=asked, findings=lint(asked), fit=None)


def of_start(start: LaunchOnBox, knowledge: Knowledge) -> CheckReport:
    asked = replace(
        _subject(start, knowledge), rooms=profiles_knowledge.gather_rooms(start, knowledge)
    )
    return CheckReport(
        subject=asked,
        findings=_weigh_findings(lint(asked), start, knowledge),
        fit=profiles_knowledge.estimate_fit(asked, start, knowledge),
    )


def findings(launch: Launch, box: Box | None, profile: Profile | None = None) -> list[LintFinding]:
    """The worst first, whatever memory is free now. Without a box what holds on every box.

    With the profile, its own starts on this box are weighed against what is known elsewhere.
    """
    if box is None:
        return anywhere(launch).findings
    start = LaunchOnBox(launch=launch, box=box, profile=profile)
    knowledge = Knowledge([start])
    return _weigh_findings(lint(_subject(start, knowledge)), start, knowledge)


def _weigh_findings(
    found: list[LintFinding], start: LaunchOnBox, knowledge: Knowledge
) -> list[LintFinding]:
    return weigh(found, start.launch, find_last_good_run(start, knowledge)) if found else found


def find_last_good_run(start: LaunchOnBox, knowledge: Knowledge) -> LastGoodRun | None:
    """What the profile's latest start on this box that became ready says of its launch; None of one
    that inferdash has not made."""
    run = next(iter(knowledge.last_good(start)), None)
    if run is None or run.ready_at is None or run.is_watched:
        return None
    launch, day = (
        parameters.fill(run.version.launch, run.plan.values),
        timezone.localdate(run.ready_at),
    )
    return LastGoodRun(launch=launch, version=run.version.number, day=day)


def subject(launch: Launch, box: Box | None, profile: Profile | None = None) -> Subject:
    if box is None:
        return Subject(launch=launch)
    start = LaunchOnBox(launch=launch, box=box, profile=profile)
    return _subject(start, Knowledge([start]))


def _subject(start: LaunchOnBox, knowledge: Knowledge) -> Subject:
    alone = subject_with(
        start.launch, start.box, knowledge.image(start), knowledge.checkpoint(start)
    )
    return replace(alone, others=_others(start, knowledge))


def by_itself(launch: Launch, box: Box) -> Subject:
    """Without a look at who else is on the box."""
    return subject_with(
        launch,
        box,
        ImageFacts.objects.find_for_launch(launch, box),
        checkpoints.find_facts(launch, box),
    )


def _others(start: LaunchOnBox, knowledge: Knowledge) -> tuple[str, ...] | None:
    """Who holds GPU memory beside the profile's own servers, which a start would replace."""
    sample = knowledge.sample(start.box)
    if sample is None:
        return None
    own = knowledge.find_replaced(replace(start, server=None))
    return holders.others(sample, {run.container_id for run in own})


def subject_with(
    launch: Launch, box: Box, image: ImageFacts | None, checkpoint: CheckpointFacts | None
) -> Subject:
    known = Subject(
        launch=launch,
        engine_version=image.version if image else "",
        flaglist=image.flaglist if image else None,
        checkpoint_config=checkpoint.config if checkpoint else None,
        weights=checkpoint.weights if checkpoint else None,
    )
    cards = box.gpus
    if cards is None:
        return known
    gpus = tuple(
        TargetGpu(
            index=card["index"],
            name=card["name"] or "",
            compute_capability=card["compute_capability"] or "",
            memory=card["total"],
        )
        for card in cards
    )
    return replace(
        known,
        gpus=gpus,
        box_kind=_kind({card["kind"] or "" for card in cards}),
        driver=box.facts.get("driver", ""),
    )


def _kind(kinds: set[BoxKind]) -> BoxKind:
    """The box's, where all of its cards are of one kind."""
    return kinds.pop() if len(kinds) == 1 else ""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """`lacks` of what runs; those that the profile says by now are `saved`: a restart brings them."""

    lacks: tuple[MissingFeature, ...]
    saved: frozenset[str]  # keys
    takes_pictures: bool | None  # None: nobody can tell


def find_abilities(server: Server) -> Chat:
    subject = by_itself(server.launch, server.box)
    found = features.lacks(subject)
    run = server.run
    # What runs is mostly what is saved: it is not looked at twice for every open page.
    is_newest = (
        run is not None
        and run.version_id == server.profile.current_id
        and run.plan.values == server.values
    )
    missing = found if is_newest or not found else list_features(server)
    keys = {lack.key for lack in missing}
    return Chat(
        lacks=found,
        saved=frozenset(lack.key for lack in found if lack.key not in keys),
        takes_pictures=features.takes_pictures(subject),
    )


def list_features(server: Server) -> tuple[MissingFeature, ...]:
    """What the profile, as it is saved now, leaves chats with this server without."""
    launch = parameters.fill(server.profile.launch, server.values)
    return features.lacks(by_itself(launch, server.box))

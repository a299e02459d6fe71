"""Rules on cards: whether they answer, and persistence mode."""

from collections.abc import Iterator
from typing import ClassVar

from servers.judge.memory.hardware.duration import Lasting
from servers.judge.memory.hardware.finding import HardwareFinding
from servers.judge.memory.hardware.sample import Card, HardwareSample, build_card_finding, uuid

# A reset takes a card away for some seconds, on purpose.
_LOST_AFTER = 5.0
_ODD_AFTER = 30.0
_PERSISTENCE_AFTER = 30.0

_BACK = (
    "Stop what uses it and restart the box, best by taking its power away. If it happens again, "
    "look at its power cables and its slot, and swap it with another card to see whether the "
    "fault goes with it."
)


class Answers:
    """Sources: NVML's return codes 15 (lost) and 16 (reset required), nvml.h."""

    ids: ClassVar[tuple[str, ...]] = ("gpu_lost", "gpu_reset", "gpu_answer")
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._known: dict[str, Card] = {}  # of this boot
        self._lost = Lasting(enter=_LOST_AFTER, leave=_LOST_AFTER)
        self._reset = Lasting(enter=_LOST_AFTER, leave=_LOST_AFTER)
        self._odd = Lasting(enter=_ODD_AFTER, leave=_ODD_AFTER)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        listed = {uuid(card): card for card in now.cards}
        # One that has not told its UUID yet may turn out to be any of the others.
        self._known |= {key: card for key, card in listed.items() if card.get("uuid")}
        for key, card in (listed | self._known).items():
            kind = _kind(card) if key in listed else "missing"
            if since := self._lost.find_start(key, now.t, kind in ("lost", "missing")):
                why = (
                    "The driver no longer lists this GPU, which it had earlier in this boot."
                    if kind == "missing"
                    else "NVML answers that this GPU is lost: it fell off the bus, or was taken away."
                )
                yield build_card_finding(
                    card, "gpu_lost", "critical", since,
                    title="no longer answers", because=why, advice=_BACK,
                )  # fmt: skip
            if since := self._reset.find_start(key, now.t, kind == "reset"):
                yield build_card_finding(
                    card, "gpu_reset", "critical", since,
                    title="needs a reset",
                    because="NVML answers that nothing works on this GPU before it is reset.",
                    advice="Stop what uses it, then run “sudo nvidia-smi --gpu-reset -i "
                    f"{card.get('index')}”, or restart the box.",
                )  # fmt: skip
            if since := self._odd.find_start(key, now.t, kind == "odd"):
                yield build_card_finding(
                    card, "gpu_answer", "warning", since,
                    title="gives an answer that nobody expects",
                    because=str(card.get("fault")),
                    advice="Compare with “nvidia-smi -q” on the box, and look for lines with NVRM "
                    "in “sudo dmesg”. A restart of the box often ends it.",
                )  # fmt: skip


def _kind(card: Card) -> str | None:
    """Recordings of earlier versions have the sentence alone."""
    if not card.get("fault"):
        return None
    return card.get("fault_kind") or ("odd" if card.get("total") is not None else "lost")


class Persistence:
    """Source: NVIDIA's driver persistence guide: without it the driver lets go of an idle card."""

    ids: ClassVar[tuple[str, ...]] = ("persistence",)
    needs_cards: ClassVar[bool] = True

    def __init__(self) -> None:
        self._off = Lasting(enter=_PERSISTENCE_AFTER, leave=0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            mode = card.get("persistence")
            is_off = None if mode is None or card.get("kind") == "unified" else not mode
            if since := self._off.find_start(uuid(card), now.t, is_off):
                yield build_card_finding(
                    card, "persistence", "info", since,
                    title="has persistence mode off",
                    because="With nobody on it the driver puts this GPU to sleep: the next start "
                    "waits some seconds for it to wake, and its ECC counts begin anew.",
                    advice="For now: “sudo nvidia-smi -pm 1”. For good: “sudo systemctl enable "
                    "--now nvidia-persistenced”.",
                )  # fmt: skip

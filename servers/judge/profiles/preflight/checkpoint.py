"""Preflight of the model: on the box, or to be downloaded."""

from collections.abc import Iterator

from servers.judge.profiles.conditions import ON
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.preflight.context import PreflightItem, StartContext, gib, item


def checkpoint(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch = facts.launch
    offline = (facts.env.get("HF_HUB_OFFLINE") or "").casefold() in ON
    if around.checkpoint == "there":
        yield item("checkpoint", "Checkpoint", "ok", f"{launch.checkpoint} is on {around.box}.")
    elif around.checkpoint == "unknown":
        yield item(
            "checkpoint", "Checkpoint", "unknown",
            f"Whether {launch.checkpoint} is on {around.box} is not known.",
        )  # fmt: skip
    elif launch.checkpoint.startswith("/"):
        yield item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} leads to nothing on {around.box}.",
            "Put the model there, or correct the path or the volumes in the profile.",
        )  # fmt: skip
    elif offline:
        yield item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} is not whole on {around.box}, and HF_HUB_OFFLINE forbids to "
            "download it.",
            "Take HF_HUB_OFFLINE out of the profile for the first start.",
        )  # fmt: skip
    elif around.remote == "gone":
        seen = "the box's token" if around.has_token else "anybody without a token"
        yield item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} is not on {around.box}, and Hugging Face shows no such model to "
            f"{seen}.",
            "Correct its name or revision; if it is private, save a token for the box that may "
            "read it.",
        )  # fmt: skip
    else:
        rest = f", {gib(around.missing)} GiB" if around.missing else ""
        yield item(
            "checkpoint", "Checkpoint", "ok",
            f"{launch.checkpoint} is {'partly ' if around.checkpoint == 'part' else 'not '}on "
            f"{around.box}; the engine downloads {'the rest' if around.checkpoint == 'part' else 'it'}{rest}.",
        )  # fmt: skip


def token(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    if around.remote == "expired" and around.has_token and around.checkpoint != "there":
        yield item(
            "token", "Token", "error",
            "Hugging Face does not accept the box's token: it has ended, was revoked, or is "
            "mistyped.",
            "Save a new one for the box in the settings.",
        )  # fmt: skip
        return
    if around.remote == "refused" and around.checkpoint != "there":
        yield item(
            "token", "Token", "warning" if around.has_token else "error",
            f"Hugging Face shows the files of {facts.launch.checkpoint} only to who has accepted "
            f"its licence, {'not with the box’s token' if around.has_token else 'and the engine is given no token'}.",
            "Accept the licence on the model's page, and save a token of that account for the box "
            "in the settings.",
        )  # fmt: skip
        return
    if not around.was_refused or around.checkpoint == "there":
        return
    if around.has_token:
        yield item(
            "token", "Token", "warning",
            f"Hugging Face has refused {facts.launch.checkpoint} before; there is a token now.",
            "If it is refused again, accept the model's licence on its page as the token's owner.",
        )  # fmt: skip
    else:
        yield item(
            "token", "Token", "error",
            f"Hugging Face has refused {facts.launch.checkpoint} before, and the engine is given "
            "no token.",
            "Save a Hugging Face token for the box in the settings, and let the profile pass it.",
        )  # fmt: skip

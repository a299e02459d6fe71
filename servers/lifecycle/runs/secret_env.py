"""Secret variables of a run's container, and their redaction in its output."""

import logging
from collections.abc import Callable, Collection, Mapping

from django.conf import settings

from servers.host.runs.probes import Endpoint
from servers.launch.engines import placement
from servers.launch.engines.engine import flag_value, secret_words
from servers.launch.redaction import mask_tokens
from servers.lifecycle.links import ways
from servers.models import Run, RunPlan, Secret
from servers.models.people.key import SecretError, SecretValues, mask, unseal_given

log = logging.getLogger(__name__)

# Variables by which an engine learns the key that it asks callers for.
ENGINE_KEYS = ("VLLM_API_KEY", "LLAMA_API_KEY")


class SecretsError(Exception):
    """The run cannot be made; the text says why and what to do."""


def site(run: Run) -> placement.Site:
    """What this box adds to the profile, secrets in the clear. For the worker's eyes only."""
    box = run.server.box
    launch = run.launch
    wanted = Secret.objects.in_bulk(list(launch.secret_env.values()))
    missing = [name for name, pk in launch.secret_env.items() if pk not in wanted]
    if missing:
        raise SecretsError(
            f"The secret behind {missing[0]} was deleted. Edit the profile and enter it again."
        )
    try:
        return placement.Site(
            home=box.home,
            hf_cache=box.hf_cache,
            hf_token=box.hf_token.reveal() if box.hf_token else "",
            secrets={name: wanted[pk].reveal() for name, pk in launch.secret_env.items()},
        )
    except SecretError as error:
        raise SecretsError(str(error)) from error


def secret_values(run: Run) -> list[str]:
    """Every value that must not appear in this run's log, errors or command.

    Those that its container was given, and those that it would be given now.
    """
    launch = run.launch
    secrets = [run.server.box.hf_token, *Secret.objects.filter(pk__in=launch.secret_env.values())]
    found = set(secret_words(launch.flags))
    if run.plan.sealed_secrets is not None:
        found.update(_readable(lambda: unseal_given(bytes(run.plan.sealed_secrets or b"")).values))
    for secret in filter(None, secrets):
        found.update(_readable(lambda secret=secret: [secret.reveal()]))  # type: ignore[misc]
    return sorted(filter(None, found))


def _readable(read: Callable[[], Collection[str]]) -> Collection[str]:
    try:
        return read()
    except SecretError as error:
        # The others must be masked all the same.
        log.warning("%s", error)
        return []


def remember(run: Run, here: placement.Site) -> None:
    """Before the container starts: what it knows must be masked for as long as it prints."""
    remember_given(run, SecretValues(named=here.secrets, others=[here.hf_token]))


def remember_again(run: Run, env: Mapping[str, str]) -> None:
    """The same from the environment of a container that is there already."""
    names = ("HF_TOKEN", *run.launch.secret_env)
    remember_given(run, SecretValues(named={name: env[name] for name in names if name in env}))


def remember_given(run: Run, given: SecretValues) -> None:
    """The same, where somebody has picked it out."""
    run.plan.sealed_secrets = given.seal()
    RunPlan.objects.filter(run=run.pk).update(sealed_secrets=run.plan.sealed_secrets)


def mask_secrets(run: Run, text: str) -> str:
    return without_tokens(mask(text, secret_values(run)))


def without_tokens(text: str) -> str:
    """Those that are known by their shape alone."""
    known = text.encode(errors="replace")
    # An engine may print NUL, and PostgreSQL keeps no text that holds one.
    return mask_tokens([known])[0].decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def find_endpoint(run: Run) -> Endpoint | None:
    """Where the engine answers, for who runs on its box or on the hub; None before it has a port,
    and on a hub that has no way to its box.

    The only way to an engine: no address that a person typed is ever asked.
    """
    if run.address is None or run.port is None:
        return None
    via = None
    if settings.WIRE == "hub":
        if not ways.has_way(run.server.box):
            return None
        via = ways.find_way(run.server.box)
    return Endpoint(address=run.address, port=run.port, key=_find_engine_key(run), via=via)


def find_key_in(words: tuple[str, ...], env: Mapping[str, str | None]) -> str:
    """The key that an engine was told to ask callers for; "" for none."""
    named = (found for name in ENGINE_KEYS if (found := env.get(name)))
    return flag_value(words, "--api-key") or next(named, "")


def _find_engine_key(run: Run) -> str:
    launch = run.launch
    if key := flag_value(launch.flags, "--api-key"):
        return key
    for name in ENGINE_KEYS:
        if name in launch.secret_env:
            # What it was started with: a secret that is replaced counts from the next start.
            given = _unseal_named(run.plan.sealed_secrets).get(name)
            return _reveal(launch.secret_env[name]) if given is None else given
        if name in launch.env:
            return launch.env[name]
    return ""


def _unseal_named(sealed: bytes | memoryview | None) -> Mapping[str, str]:
    """Variables by their names; {} where they cannot be read."""
    try:
        return unseal_given(bytes(sealed)).named if sealed is not None else {}
    except SecretError:
        return {}


def _reveal(secret: int) -> str:
    """A secret's value; "" of one that is gone or cannot be read: then its engine refuses what it
    is asked, and nothing else stands still."""
    found = Secret.objects.filter(pk=secret).first()
    try:
        return found.reveal() if found is not None else ""
    except SecretError:
        return ""

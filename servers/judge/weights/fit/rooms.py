"""The GPUs that a launch would fill, with what is free of them."""

from servers.judge.memory.room import GpuRoom
from servers.judge.profiles.facts import LaunchFacts
from servers.launch.engines import gpu_requirements


def find_used_rooms(facts: LaunchFacts) -> tuple[GpuRoom, ...]:
    """The rooms of the GPUs that the engine divides the model over; () where that is not known.

    Where a profile says which GPUs and not where ("2x H200"), those with the most free memory.
    """
    rooms, gpus = facts.subject.rooms, facts.used_gpus
    if not rooms or not gpus:
        return ()
    if which := gpu_requirements.parse(facts.launch.gpus):
        fitting = {
            gpu.index
            for gpu in facts.subject.gpus or ()
            if which.fits((gpu.name, gpu.compute_capability))
        }
        found = sorted(
            (room for room in rooms if room.index in fitting),
            key=lambda room: (-(room.free or 0), room.index),
        )[: which.count]
    else:
        indices = [gpu.index for gpu in gpus]
        found = [room for room in rooms if room.index in indices]
    needed = on_this_box(facts)
    return tuple(found[:needed] if needed else found)


def on_this_box(facts: LaunchFacts) -> int | None:
    """How many GPUs of one machine the flags divide the model over; None where not known."""
    if facts.engine == "llamacpp" or None in (facts.tp, facts.pp, facts.dp) or not facts.nodes:
        return None
    shared = facts.engine == "sglang" and (
        facts.flag("--enable-dp-attention") or facts.flag("--attn-dp-size")
    )
    replicas = 1 if shared else facts.number("--data-parallel-size-local", 0) or facts.dp or 1
    return -(-(facts.tp or 1) * (facts.pp or 1) * replicas // facts.nodes)

"""The engine's own benchmark program, run in a container beside the server, its JSON read as ours."""

import random
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from servers import events
from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError
from servers.host.docker.throwaway import ContainerOutput
from servers.judge.benchmarks import engine_bench
from servers.judge.benchmarks.cards import UploadError
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.engine_bench import BenchShape
from servers.judge.benchmarks.imports import read_upload
from servers.judge.runs.health import cards_of
from servers.launch.engines import ENGINES, placement
from servers.launch.spec import Spec
from servers.lifecycle.benchmarks import in_flight
from servers.lifecycle.benchmarks.conditions import ConditionWatch
from servers.lifecycle.benchmarks.giving_way import CheckupPauses
from servers.lifecycle.benchmarks.rounds import TakenRound, keep_rounds
from servers.lifecycle.benchmarks.subject import BenchmarkSubject
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.lifecycle.profiles import export_all
from servers.lifecycle.runs import creation, starts
from servers.lifecycle.runs.starts import SecretsError, mask_secrets, site
from servers.models import Benchmark, BenchmarkJob, Run

OF = "bench"  # its containers, for throwaway.drop_leftovers()
_SECONDS = 600.0  # of one run of it, on a box that is not busy: its libraries take a minute to load
_MEMORY = 16 << 30  # bytes
_LINES = 3  # of what it printed last, for people
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # The cache is mounted read only.
    "HF_MODULES_CACHE": "/tmp/modules",  # noqa: S108 - in the container
    "HOME": "/tmp",  # noqa: S108
}
# A Docker whose own runtime is NVIDIA's would give its GPUs to every CUDA image.
_NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
_STOPPED = "It was stopped. The points that were whole are kept."


class EngineMeasurement:
    def __init__(
        self, work: JobWork[BenchmarkJob], benchmark: Benchmark, subject: BenchmarkSubject
    ) -> None:
        run = subject.run
        self.work, self.benchmark, self.subject, self.run = work, benchmark, subject, run
        self.engine = ENGINES[run.launch.engine]
        bench = engine_bench.find_bench(self.engine)
        if bench is None:
            raise JobError(f"{self.engine.title} brings no program that measures it.")
        self.bench = bench
        self.pauses = CheckupPauses(work, subject, self._check)

    def measure_all(self) -> None:
        """Raises JobError, GivenUpError."""
        if self.bench.loads_model:
            _check_room(self.run, self.work)
        chance = random.Random()  # noqa: S311 - prompts, no secrets
        with in_flight.note_run(self.run.pk):
            for place, shape in enumerate(self.bench.shapes):
                taken, measured = [], None
                for number in range(self.bench.rounds):
                    self._check()
                    self.pauses.give_way()
                    self._tell(shape, place, number)
                    found, measured = self._take(shape, chance.randrange(2**31))
                    taken += found
                assert measured is not None
                keep_rounds(
                    self.benchmark, place, taken, name=shape.name, concurrency=shape.people,
                    prompt_tokens=measured.prompt_tokens, output_tokens=measured.output_tokens,
                )  # fmt: skip
                events.publish_change("benchmarks")

    def describe_pauses(self) -> str:
        return str(self.pauses)

    def _take(self, shape: BenchShape, seed: int) -> tuple[list[TakenRound], MeasuredPoint]:
        words = self.bench.list_words(self.run.launch, self.engine, shape, seed)
        spec = build_spec(
            self.run, self.bench.wrap(words), key=self.subject.endpoint.key,
            has_gpus=self.bench.loads_model,
        )  # fmt: skip
        self._keep_command(words)
        ours = 0 if self.bench.loads_model else shape.people
        in_flight.note_most(self.run.pk, ours)
        watch = ConditionWatch(self.subject, lambda: ours, self.work.runner.read_sample)

        def look() -> None:
            self.work.check()
            watch.look()

        at = time.time()
        try:
            with self.work.report_progress(look):
                said = throwaway.ask_beside(
                    creation.docker(), spec, of=OF, seconds=_SECONDS,
                    go_on=lambda: not self.work.is_given_up,
                )  # fmt: skip
        except ContainerError as error:
            raise JobError(f"{self.bench.title} could not be started. {error}") from error
        finally:
            in_flight.note_most(self.run.pk, 0)
        [measured] = self._read(said)[:1]
        conditions = watch.conclude(0.0)
        if self.bench.loads_model and conditions.other_engines:  # one of them is the program
            conditions = replace(conditions, other_engines=conditions.other_engines - 1)
        rounds = [
            TakenRound(
                at=at,
                # As long as it ran: the gateway's requests of that time are others'.
                figures=replace(each, seconds=each.seconds or said.took),
                conditions=conditions,
                requests=(),
            )
            for each in measured.rounds
        ]
        return rounds, measured

    def _read(self, said: ContainerOutput) -> tuple[MeasuredPoint, ...]:
        if said.end == "given_up":
            raise GivenUpError(_STOPPED)
        if said.end != "ended":
            ends = {
                "late": "took too long",
                "long": "printed too much",
                "memory": "took too much memory",
            }
            raise JobError(f"{self.bench.title} {ends[said.end]}, and was ended.")
        if said.exit_code in (126, 127):
            raise JobError(
                f"The image {self.run.launch.image} has no {self.bench.title}.",
                advice="Some images hold the server alone; llama.cpp’s “full” images have llama-bench.",
            )
        if said.exit_code:
            lines = mask_secrets(self.run, said.errors.strip()).splitlines()[-_LINES:]
            raise JobError(
                f"{self.bench.title} ended with exit code {said.exit_code}: {' '.join(lines)[:500]}"
            )
        try:
            return tuple(read_upload(said.output.encode()).points)
        except UploadError as error:
            raise JobError(f"What {self.bench.title} wrote could not be read. {error}") from error

    def _keep_command(self, words: tuple[str, ...]) -> None:
        if "command" not in self.benchmark.measured_on:
            command = mask_secrets(self.run, shlex.join(words))
            Benchmark.objects.filter(pk=self.benchmark.pk).update(
                measured_on=self.benchmark.measured_on | {"command": command}
            )
            self.benchmark.measured_on["command"] = command

    def _check(self) -> None:
        if self.work.is_given_up:
            raise GivenUpError(_STOPPED)

    def _tell(self, shape: BenchShape, place: int, number: int) -> None:
        self.work.note(
            point=f"{shape.name}, round {number + 1} of {self.bench.rounds}",
            done=place * self.bench.rounds + number,
            total=self.bench.rounds * len(self.bench.shapes),
        )


def build_spec(run: Run, words: tuple[str, ...], *, key: str, has_gpus: bool) -> Spec:
    """The container: the run's image and mounts, read only, in the engine's own network.

    It gets the key that the engine asks callers for ("": none), and no other secret. Raises JobError for what
    this box does not allow.
    """
    launch = run.launch
    try:
        here = replace(site(run), hf_token="", secrets={})
        usual = placement.spec(
            launch, here, name="", labels={}, host_port=0, entrypoint=(), kernels_volume="",
            image=run.image_id or launch.image, gpus=run.gpus,
        )  # fmt: skip
        beside = "" if launch.network == "host" else run.container_id
        own = {"OPENAI_API_KEY": key or "none"} | ({} if has_gpus else _NO_GPUS)
        spec = Spec(
            image=usual.image,
            entrypoint=words[:1],
            command=words[1:],
            env={**usual.env, **_OFFLINE, **own},
            mounts=tuple(replace(each, read_only=True) for each in usual.mounts),
            network=f"container:{beside}" if beside else "host",
            shm_size=usual.shm_size,
            gpus=usual.gpus if has_gpus else "none",
            runtime=usual.runtime if has_gpus else "",
            devices=usual.devices if has_gpus else (),
            group_add=usual.group_add,
            user=usual.user,
            memory=None if has_gpus else _MEMORY,
        )
        spec = starts.harden(creation.docker(), spec, creation.read_limits())
        creation.check(spec, "", beside=beside)
        export_all.check_files(spec, launch.digests)
    except (SecretsError, placement.VolumeError, ContainerError) as error:
        raise JobError(str(error)) from error
    return spec


def _check_room(run: Run, work: JobWork[BenchmarkJob]) -> None:
    """Whether the model fits beside itself. Raises JobError."""
    if run.gpus in ("", "none"):
        return
    cards = cards_of(work.runner.read_sample() or {}, run.container_id)
    of_others = [card for card in cards if _count_held(card) > (card.get("free") or 0)]
    if cards and not of_others:
        return
    why = (
        f"GPU {of_others[0].get('index')} has less free than {run.server.slug} uses of it"
        if of_others
        else "nobody knows how much memory is free"
    )
    raise JobError(f"llama-bench loads the model once more beside the server, and {why}.")


def _count_held(card: Mapping[str, Any]) -> int:
    """Bytes that its largest process holds."""
    return max((each.get("used") or 0 for each in card.get("processes") or []), default=0)


def drop_leftovers() -> None:
    """What a watcher that was killed has left: it would go on with its load."""
    with suppress(ContainerError):
        throwaway.drop_leftovers(creation.docker(), OF)

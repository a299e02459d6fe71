"""Simulated load: requests that arrive in bursts and stay for a while.

Nothing here is drawn as a curve: requests arrive, wait, take tokens and end, and what the pages
show follows from them.
"""

import math
import random
from dataclasses import dataclass, field

# How busy people are, with how long it stays so (seconds) and how likely it is to come next.
_MOODS = {
    "quiet": (0.06, 90.0, 0.22),
    "steady": (1.0, 240.0, 0.48),
    "busy": (2.1, 150.0, 0.22),
    "burst": (5.5, 22.0, 0.08),
}
_LONGEST_ANSWER = 1800


@dataclass(kw_only=True)
class InFlight:
    """A request: tokens that are read still, and tokens that are written still."""

    prompt: int
    left: int
    context: int = 0
    waited: float = 0.0
    had_first: bool = False


@dataclass(kw_only=True)
class Traffic:
    """`rate`: requests a second on a steady hour; `speed`: tokens a second of one alone."""

    rate: float
    speed: float
    slots: int = 48
    kv_tokens: int = 400_000
    seed: int = 1
    jobs: list[InFlight] = field(default_factory=list)
    queue: list[InFlight] = field(default_factory=list)
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    finished: int = 0
    first_tokens: list[float] = field(default_factory=list)  # seconds, all that there were
    share: float = 0.0  # of the last step in which the GPU worked

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - no secret
        self._mood, self._mood_left = "steady", 60.0
        self._drift = 0.0

    def step(self, seconds: float) -> None:
        """Let so much time pass."""
        chance = self._chance
        self._mood_left -= seconds
        if self._mood_left <= 0:
            names = list(_MOODS)
            self._mood = chance.choices(names, [_MOODS[name][2] for name in names])[0]
            self._mood_left = chance.expovariate(1 / _MOODS[self._mood][1])
        # Noise that remembers: what is busy now is likely to be so a minute later.
        self._drift += -self._drift * seconds / 60 + chance.gauss(0, 0.09) * math.sqrt(seconds)
        pace = self.rate * _MOODS[self._mood][0] * math.exp(min(1.2, max(-1.2, self._drift)))
        for _ in range(_count(chance, pace * seconds)):
            self.queue.append(self._new_job())
        while self.queue and len(self.jobs) < self.slots:
            self.jobs.append(self.queue.pop(0))
        self._work(seconds)

    def _new_job(self) -> InFlight:
        prompt = int(min(16_000, self._chance.lognormvariate(6.4, 1.0)))
        answer = int(min(_LONGEST_ANSWER, self._chance.lognormvariate(5.4, 0.8)))
        return InFlight(prompt=max(8, prompt), left=max(4, answer))

    def _work(self, seconds: float) -> None:
        for job in self.queue:
            job.waited += seconds
        if not self.jobs:
            self.share = 0.0
            return
        # One alone is fastest; many share the card, and together get more out of it.
        each = self.speed / (1 + len(self.jobs) / 14)
        longest = 0.0
        for job in self.jobs:
            if not job.had_first:
                took = 0.03 + job.prompt / 9000 * (1 + len(self.jobs) / 20)
                self.first_tokens.append(job.waited + took)
                self.prompt_tokens += job.prompt
                job.context, job.had_first = job.prompt, True
            done = min(job.left, max(1, round(each * seconds * self._chance.uniform(0.93, 1.05))))
            job.left -= done
            job.context += done
            self.generation_tokens += done
            longest = max(longest, done / each)
        self.finished += sum(job.left <= 0 for job in self.jobs)
        self.jobs = [job for job in self.jobs if job.left > 0]
        self.share = 1.0 if self.jobs else min(1.0, longest / seconds)

    @property
    def kv_share(self) -> float:
        """Of the KV cache: 0 to 1."""
        return min(1.0, sum(job.context for job in self.jobs) / self.kv_tokens)

    @property
    def effort(self) -> float:
        """How hard the card works: 0 to 1, above a half with any request."""
        if not self.share:
            return 0.0
        batch = 1 - math.exp(-len(self.jobs) / 16)
        return self.share * (0.45 + 0.5 * batch) * self._chance.uniform(0.96, 1.03)


def _count(chance: random.Random, mean: float) -> int:
    """How many came, where so many come on average (Poisson)."""
    limit, product, count = math.exp(-min(mean, 50.0)), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


@dataclass(kw_only=True)
class Heat:
    """A card's power and temperature: it warms up and cools down behind its work."""

    idle_watts: float
    most_watts: float
    temperature: float = 31.0
    watts: float = 0.0
    wobble: float = 0.0  # percent by which its utilisation wanders
    seed: int = 1

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - no secret
        self.watts = self.watts or self.idle_watts

    def step(self, seconds: float, effort: float) -> None:
        memory = math.exp(-seconds / 8)
        self.wobble = memory * self.wobble + self._chance.gauss(0, 3.5) * math.sqrt(1 - memory**2)
        goal = self.idle_watts + effort * (self.most_watts - self.idle_watts)
        self.watts += (goal - self.watts) * min(1.0, seconds / 1.6)
        self.watts = max(self.idle_watts * 0.9, self.watts + self._chance.gauss(0, 1 + 9 * effort))
        rest = 27 + self.idle_watts / 20
        wanted = rest + (self.watts - self.idle_watts) / self.most_watts * 47
        self.temperature += (wanted - self.temperature) * min(1.0, seconds / 25)

"""What two readings of an engine's metrics say: rates, shares, latencies, whatever they lack."""

from math import inf
from pathlib import Path
from random import Random

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.host.http.prometheus import Exposed, read
from servers.judge.runs import metrics
from servers.judge.runs.metrics import (
    EngineReading,
    Figures,
    MetricMap,
    compute_figures,
    live,
    quantile,
)
from servers.launch.engines import ENGINES

HERE = Path(__file__).parent
NOTHING = Exposed()


def book(engine: str) -> MetricMap:
    return metrics.by_engine()[engine]


def reading(engine: str, text: str, at: float = 0.0) -> EngineReading:
    mine = book(engine)
    return EngineReading(at=at, exposed=read(text, mine.names, mine.histograms))


def sample(name: str, at: float = 0.0) -> EngineReading:
    return reading(name.split("-")[0], (HERE / f"{name}.txt").read_text(), at)


def test_every_engine_that_tells_figures_has_a_book() -> None:
    telling = {
        key for key, engine in ENGINES.items() if engine.metrics_path and engine.serves_models
    }
    assert set(metrics.by_engine()) == telling
    for key, mine in metrics.by_engine().items():
        engine = ENGINES[key]
        assert {engine.running_metric, engine.waiting_metric} <= mine.names


def test_figures_of_vllm_itself_between_two_readings() -> None:
    found = compute_figures(
        book("vllm"), sample("vllm-0.32-before"), sample("vllm-0.32-after", at=10.0)
    )

    assert found.running == 2
    assert found.queued == 0
    assert found.generation == pytest.approx((685 - 120) / 10)
    assert found.prompt == pytest.approx((555 - 183) / 10)
    assert found.preemptions == 0
    assert found.prefix == 0
    assert found.accepted is None  # it drafts nothing
    assert found.kv == pytest.approx(0.000488, abs=1e-6)
    assert found.first_p50 is not None
    assert found.first_p95 is not None
    assert 0 < found.first_p50 <= found.first_p95 < 1
    assert found.token_p50 is not None
    assert found.whole_p95 is not None


def test_an_old_vllm_is_read_by_its_old_names() -> None:
    old, new = sample("vllm-0.6"), sample("vllm-0.6", at=10.0)
    found = compute_figures(book("vllm"), old, new)

    assert (found.running, found.queued, found.kv) == (3, 1, 0.25)
    assert found.prefix is None  # caching is off: -1
    assert found.token_p50 is None  # nothing happened
    before = EngineReading(at=0.0, exposed=Exposed(totals={"vllm:num_requests_running": 0.0}))
    assert 0.01 < (compute_figures(book("vllm"), before, new).token_p50 or 0) < 0.025


def test_engines_of_one_server_are_added_up_and_their_caches_averaged() -> None:
    found = compute_figures(
        book("vllm"), EngineReading(at=0.0, exposed=EMPTY_VLLM), sample("vllm-0.10", at=60.0)
    )

    assert (found.running, found.queued) == (6, 3)
    assert found.kv == pytest.approx(0.3)  # told under two names, counted once
    assert found.generation == pytest.approx(100)
    assert found.prefix == pytest.approx(0.6)
    assert found.accepted == pytest.approx(0.75)
    assert found.preemptions is None  # not told


EMPTY_VLLM = Exposed(totals={"vllm:num_requests_running": 0.0}, series={}, buckets={})


def test_ranks_of_sglang_that_share_work_count_once() -> None:
    fresh = reading("sglang", "sglang:num_running_reqs 0\n")
    found = compute_figures(book("sglang"), fresh, sample("sglang-0.5", at=10.0))

    assert (found.running, found.queued, found.kv) == (4, 7, 0.28)
    assert found.generation == 2000  # its counters are born with the first request
    assert found.prefix == 0.75
    assert found.first_p50 == pytest.approx(0.15)
    assert found.first_p95 == 0.2  # beyond the last bound: at least so much


def test_a_gauge_of_the_last_request_says_nothing_while_nobody_asks() -> None:
    found = compute_figures(book("sglang"), sample("sglang-0.5"), sample("sglang-0.5", at=10.0))

    assert found.prefix is None
    assert found.generation == 0
    assert found.first_p50 is None


def test_a_fresh_sglang_is_idle_and_not_unknown() -> None:
    text = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"
    found = compute_figures(
        book("sglang"), reading("sglang", text), reading("sglang", text, at=2.0)
    )

    assert (found.generation, found.prompt) == (0, 0)
    assert found.is_idle


def test_llamacpp_tells_no_latencies_and_counts_cached_tokens_apart() -> None:
    fresh = reading("llamacpp", "llamacpp:requests_processing 0\n")
    found = compute_figures(book("llamacpp"), fresh, sample("llamacpp", at=4.0))

    assert (found.running, found.queued) == (1, 0)
    assert found.prefix == 0.25
    assert found.first_p50 is None
    assert found.kv is None


def llamacpp(at: float, *, running: int, steps: int, tokens: int) -> EngineReading:
    said = {"requests_processing": running, "n_decode_total": steps}
    said |= {"tokens_predicted_total": tokens, "prompt_tokens_total": 0}
    return reading("llamacpp", "".join(f"llamacpp:{k} {v}\n" for k, v in said.items()), at=at)


def test_an_answer_whose_tokens_are_counted_at_its_end_shows_its_speed_all_the_while() -> None:
    # 50 tokens a second for a minute, seen every other second; then nothing.
    told = [llamacpp(0.0, running=0, steps=0, tokens=0)]
    for second in range(2, 60, 2):
        told.append(llamacpp(second, running=1, steps=50 * second, tokens=0))
        assert live(book("llamacpp"), told).generation == pytest.approx(50)
    told.append(llamacpp(60.0, running=0, steps=3000, tokens=3000))
    assert live(book("llamacpp"), told).generation == pytest.approx(50)
    assert compute_figures(book("llamacpp"), told[-2], told[-1]).generation == pytest.approx(50)
    for second in (62, 64, 66):
        told.append(llamacpp(second, running=0, steps=3000, tokens=3000))
    assert live(book("llamacpp"), told[4:]).generation == 0


def sglang(at: float, *, running: int, decoded: int | None, tokens: int) -> EngineReading:
    """`decoded`: None for those whose scheduler counts nothing as it comes."""
    text = f"sglang:num_running_reqs {running}\n"
    text += f"sglang:generation_tokens_total {tokens}\n" if tokens else ""
    if decoded is not None:
        text += 'sglang:realtime_tokens_total{mode="prefill_compute",tp_rank="0"} 9000\n'
    if decoded:
        text += f'sglang:realtime_tokens_total{{mode="decode",tp_rank="0"}} {decoded}\n'
    return reading("sglang", text, at=at)


def test_sglang_tells_tokens_as_they_come_and_not_all_at_the_end_of_a_request() -> None:
    # 40 tokens a second for a minute, seen every other second; then nothing.
    told = [sglang(0.0, running=0, decoded=0, tokens=0)]
    for second in range(2, 60, 2):
        told.append(sglang(second, running=1, decoded=40 * second, tokens=0))
        assert live(book("sglang"), told).generation == pytest.approx(40)
    told.append(sglang(60.0, running=0, decoded=2400, tokens=2400))
    assert compute_figures(book("sglang"), told[-2], told[-1]).generation == pytest.approx(40)
    for second in (62, 64, 66):
        told.append(sglang(second, running=0, decoded=2400, tokens=2400))
    assert live(book("sglang"), told[4:]).generation == 0


def test_an_sglang_that_counts_at_the_end_of_requests_is_told_over_a_long_span() -> None:
    idle = sglang(0.0, running=0, decoded=None, tokens=0)
    busy = sglang(28.0, running=1, decoded=None, tokens=0)
    done = sglang(30.0, running=0, decoded=None, tokens=1200)

    assert live(book("sglang"), [idle, busy, done]).generation == 40


def test_the_tokens_of_a_long_answer_are_no_speed_of_the_moment_at_which_they_are_counted() -> None:
    counted_at_its_end = [
        sglang(0.0, running=1, decoded=None, tokens=0),
        sglang(2.0, running=0, decoded=None, tokens=6000),
    ]
    assert not metrics.is_speed(book("sglang"), *counted_at_its_end)
    as_they_come = sglang(2.0, running=1, decoded=80, tokens=0)
    assert metrics.is_speed(book("sglang"), counted_at_its_end[0], as_they_come)

    drafted = [llamacpp(at, running=1, steps=9, tokens=tokens) for at, tokens in ((0, 0), (2, 600))]
    assert not metrics.is_speed(book("llamacpp"), *drafted)
    stepped = [llamacpp(at, running=1, steps=steps, tokens=0) for at, steps in ((0, 0), (2, 99))]
    assert metrics.is_speed(book("llamacpp"), *stepped)
    short = [llamacpp(at, running=0, steps=9, tokens=tokens) for at, tokens in ((0, 0), (2, 60))]
    assert metrics.is_speed(book("llamacpp"), *short)
    before, after = sample("vllm-0.32-before"), sample("vllm-0.32-after", at=10.0)
    assert metrics.is_speed(book("vllm"), before, after)


def test_each_step_gives_every_running_request_a_token() -> None:
    old = llamacpp(0.0, running=4, steps=100, tokens=7)
    new = llamacpp(2.0, running=4, steps=160, tokens=7)

    assert compute_figures(book("llamacpp"), old, new).generation == 120


def test_short_answers_and_steps_that_are_not_counted_are_told_by_their_tokens() -> None:
    idle = llamacpp(0.0, running=0, steps=100, tokens=7)
    after = llamacpp(2.0, running=0, steps=135, tokens=77)
    assert compute_figures(book("llamacpp"), idle, after).generation == 35
    # It does not count the steps with drafts.
    busy = llamacpp(0.0, running=1, steps=100, tokens=7)
    drafted = llamacpp(30.0, running=1, steps=100, tokens=307)
    assert live(book("llamacpp"), [busy, drafted]).generation == 10


def test_what_was_counted_across_a_restart_is_not_known() -> None:
    after = reading(
        "vllm", 'vllm:num_requests_running 1\nvllm:generation_tokens_total{engine="0"} 20\n', at=5.0
    )
    found = compute_figures(book("vllm"), sample("vllm-0.10"), after)

    assert found == Figures(running=1)


def test_metrics_that_are_off_say_nothing() -> None:
    for engine in metrics.by_engine():
        off = EngineReading(at=0.0, exposed=NOTHING)
        assert compute_figures(book(engine), off, EngineReading(at=2.0, exposed=NOTHING)).is_silent
        assert quantile(0.5, {}) is None


def test_two_readings_of_one_moment_tell_gauges_alone() -> None:
    found = compute_figures(book("vllm"), sample("vllm-0.6"), sample("vllm-0.6"))
    assert found == Figures(running=3, queued=1, kv=0.25)


def test_live_rates_tell_of_a_short_while_and_latencies_of_a_minute() -> None:
    def at(second: float, tokens: int, seen: int) -> EngineReading:
        text = (
            f"vllm:num_requests_running 1\nvllm:generation_tokens_total {tokens}\n"
            f'vllm:time_to_first_token_seconds_bucket{{le="0.5"}} {seen}\n'
        )
        return reading("vllm", text, at=second)

    readings = [at(0, 0, 0), at(50, 100, 8), at(56, 100, 8), at(58, 300, 8)]
    found = metrics.live(book("vllm"), readings)

    assert found.generation == 100  # 200 tokens in two seconds, not 300 in a minute
    assert found.first_p50 == 0.25


def test_figures_survive_being_kept() -> None:
    found = compute_figures(
        book("vllm"), sample("vllm-0.32-before"), sample("vllm-0.32-after", at=10.0)
    )
    assert Figures.from_json(found.to_json()) == found
    assert Figures.from_json({"running": 1, "of another version": 2}) == Figures(running=1)
    assert found.round().round() == found.round()


@hypothesis.settings(max_examples=200)
@given(st.randoms())
def test_quantiles_lie_within_what_was_seen_and_rise(chance: Random) -> None:
    bounds = sorted({round(chance.uniform(0.001, 50), 3) for _ in range(chance.randint(1, 12))})
    values = [chance.expovariate(0.3) for _ in range(chance.randint(1, 60))]
    buckets = {bound: float(sum(value <= bound for value in values)) for bound in bounds}
    buckets[inf] = float(len(values))
    shares = sorted(chance.random() for _ in range(5))
    found = [quantile(share, buckets) for share in shares]

    if min(values) > bounds[-1]:
        assert set(found) == {bounds[-1]}
    told = [value for value in found if value is not None]
    assert len(told) == len(found)
    assert told == sorted(told)
    assert all(0 <= value <= bounds[-1] for value in told)


@given(st.randoms())
def test_no_rate_is_ever_negative_and_no_share_beyond_its_whole(chance: Random) -> None:
    engine = chance.choice(list(metrics.by_engine()))
    mine = book(engine)

    def some(at: float) -> EngineReading:
        lines = [
            f'{name}{{engine="{rank}"}} {chance.choice([0, 1, 5, 1e6, float("nan"), -3, 1e308])}'
            for name in mine.names
            for rank in range(chance.randint(0, 2))
        ]
        lines += [
            f'{name}_bucket{{le="{bound}"}} {chance.randint(0, 9)}'
            for name in mine.histograms
            for bound in ("0.1", "1.0", "+Inf", "nonsense", "1e300", "-1")
            if chance.random() < 0.6
        ]
        chance.shuffle(lines)
        return reading(engine, "\n".join(lines), at)

    found = compute_figures(mine, some(0.0), some(chance.choice([0.0, 2.0, 60.0])))
    for name, value in found.to_json().items():
        assert value >= 0, name
        assert value < inf, name
        assert metrics.make_point(found)[name] >= 0
        if name in ("kv", "prefix", "accepted"):
            assert value <= 1, name

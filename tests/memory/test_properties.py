"""What must hold of every sequence of snapshots."""

from hypothesis import given, settings
from hypothesis import strategies as st

from servers.judge.memory.verdicts import Judge, MemoryVerdict
from tests.memory.scenes import GIB, OURS, MemoryScene, crashed

KINDS = st.sampled_from(["unified", "discrete", "numa"])
SIZES = st.floats(min_value=0, max_value=60, allow_nan=False)


@st.composite
def lives(draw: st.DrawFn) -> MemoryScene:
    """A box on which engines come and go, memory is lost and found, and things are hidden."""
    scene = MemoryScene(kind=draw(KINDS), uptime=draw(st.sampled_from([5.0, 90_000.0])))
    scene.sees = draw(st.booleans()) or draw(st.booleans())
    for _ in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(["start", "end", "lose", "cache", "reclaim", "crash", "boot"])):
            case "start":
                scene.container("running")
                scene.process(
                    100, draw(SIZES) / 2, container=OURS, state=draw(st.sampled_from("SRDZ"))
                )
            case "end" if 100 in scene.clients:
                scene.end(100)
                scene.container("exited", scene.t)
            case "lose":
                scene.lost = draw(SIZES) / 2
            case "cache" if scene.kind != "discrete":
                scene.cached = draw(SIZES) / 2
            case "reclaim":
                scene.events = [{"type": "reclaim", "level": draw(st.integers(1, 3))}]
            case "crash" if scene.containers:
                scene.container("exited", scene.t)
            case "boot":
                scene.boot += "x"
                scene.uptime = 0.0
        scene.for_(draw(st.sampled_from([5, 40, 130, 400])), step=5)
    return scene


def judged(scene: MemoryScene) -> list[tuple[dict[str, object], MemoryVerdict]]:
    judge = Judge()
    return [(snapshot, each) for snapshot in scene for each in judge.step(snapshot)]


@given(lives())
@settings(max_examples=150)
def test_a_share_is_never_negative_and_never_more_than_there_is(scene: MemoryScene) -> None:
    for _snapshot, found in judged(scene):
        assert 0 <= found.unattributed <= scene.total * GIB
        assert found.reason


@given(lives())
@settings(max_examples=150)
def test_nothing_is_lost_while_processes_that_live_explain_it(scene: MemoryScene) -> None:
    scene.lost = 0.0
    for _snapshot, found in judged(scene):
        if found.verdict == "leaked":
            assert "Process 100" in found.reason or found.unattributed > 0


@given(st.lists(SIZES, min_size=1, max_size=12), st.sampled_from(["unified", "numa"]))
@settings(max_examples=60)
def test_page_cache_alone_never_alarms(sizes: list[float], kind: str) -> None:
    scene = MemoryScene(kind=kind).for_(200)
    for size in sizes:
        scene.cached = size
        scene.for_(100, step=10)

    assert all(found.verdict == "ok" for _snapshot, found in judged(scene))


@given(lives())
@settings(max_examples=100)
def test_it_settles_once_its_cause_is_gone(scene: MemoryScene) -> None:
    scene.clients, scene.known, scene.containers = {}, {}, []
    scene.lost, scene.events, scene.sees, scene.cached = 0.0, [], True, 10.0
    scene.for_(900, step=10)

    assert judged(scene)[-1][1].verdict == "ok"


@given(KINDS, st.floats(min_value=9, max_value=60))
@settings(max_examples=40)
def test_a_loss_is_never_passed_over(kind: str, lost: float) -> None:
    scene = crashed(MemoryScene(kind=kind), lost=lost, gib=40.0).for_(400)

    assert judged(scene)[-1][1].verdict in ("reclaimable", "leaked")

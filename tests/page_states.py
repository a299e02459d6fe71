"""Rows for pages in the states that people meet: empty, typical, many, failing, loading, awkward names."""

from datetime import timedelta

from django.utils import timezone

from servers.lifecycle.runs.ownership import require_managed
from servers.models import Box, ModelInventory, Profile, Role, Server, UpgradeTrial
from servers.models.runs.run import RunState
from servers.models.trials import TrialDecision, TrialStep
from tests import factories, measurements, shelves
from tests.canary.answered import canary
from tests.canary.engine import CanaryModel
from tests.links import linked
from tests.samples import GIB, card, sample

# Of every state, so that a page has the same address in all of them.
BOX, SERVER = "rtx8", "minimax-m27"
CANARIES = (7003, 7004)  # of SERVER: a good one, and one after
TRIAL = 7201  # of SERVER, over
RESULTS = (7001, 7002)  # check-ups of SERVER, where things are as usual


def prepare_empty() -> None:
    """One box that has reported, and nothing on it."""
    on = factories.box(BOX, gpus=8, driver="580.95.05")
    factories.past_and_present(on, sample([card(index, []) for index in range(8)], []))


def prepare_typical() -> None:
    """Two boxes on an ordinary afternoon, with models, images, keys and alerts."""
    rtx8, spark = factories.busy_team()
    _fill(rtx8, spark)
    linked.attach(spark, clock_offset=-3.4, came_from="10.0.0.17")
    linked.ask("laurel")
    measured = Server.objects.get(slug=SERVER)
    measurements.benchmark(measured, "normal", pk=RESULTS[0])
    measurements.benchmark(
        measured, "normal", speed=0.82, taints=("benchmarks.others",), pk=RESULTS[1]
    )
    canary(measured, pk=CANARIES[0])
    damaged = CanaryModel(forgets_beyond=8000, breaks_tool_calls=True, shifts=0.2)
    newer = {"image": "vllm/vllm-openai:v0.21.0", "engine_version": "0.21.0"}
    canary(measured, damaged, measured_on=measurements.MEASURED_ON | newer, pk=CANARIES[1])
    UpgradeTrial.objects.create(
        pk=TRIAL, box=measured.box, server=measured, server_name=SERVER, by=factories.person(),
        step=TrialStep.OVER, ended_at=timezone.now(), decision=TrialDecision.BACK,
        old_run=measured.run, new_run=measured.run, measured_before_id=RESULTS[0],
        measured_after_id=RESULTS[1], answers_before_id=CANARIES[0], answers_after_id=CANARIES[1],
        said="Its answers are wrong where the old one’s were right.",
    )  # fmt: skip


def prepare_many() -> None:
    """Fifty servers on eight boxes with eight GPUs each."""
    on = factories.many(49)
    factories.run(factories.server(on, "minimax-m2.7"), requests_running=2)
    for number in range(2, 9):
        more = factories.box(f"spark-{number}", gpus=8)
        linked.attach(more)
        factories.tell(more, sample([card(index, []) for index in range(8)], []))
    moved = Server.objects.filter(slug__startswith="model-4", run=None)
    moved.update(box=Box.objects.get(slug="spark-2"))
    Box.objects.filter(slug="spark-8").update(seen_at=timezone.now() - timedelta(hours=2))
    _fill(on, Box.objects.get(slug="spark-2"))


def prepare_failing() -> None:
    """Nothing works: servers failed, a box is away, alerts are open."""
    rtx8, spark = factories.busy_team()
    _fill(rtx8, spark)
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.40 GiB."
    for server in Server.objects.filter(box=rtx8):
        factories.run(
            require_managed(server), RunState.FAILED, exit_code=1, age=900,
            failure="The engine ended by itself before it was ready, with exit code 1.",
            last_lines=["INFO Loading weights took 61.2 seconds", said],
        )  # fmt: skip
    for name in ("qwen3-8b", "minimax-m27"):
        factories.alert(rtx8, subject=name, server_name=name, title=f"{name} died after 3 h")
    Box.objects.filter(pk=spark.pk).update(seen_at=None)
    shelves.image_job(rtx8)


def prepare_loading() -> None:
    """A box of which nothing is known yet, whose servers have just been started."""
    on = factories.box(BOX, facts={})
    for number, state in enumerate((RunState.QUEUED, RunState.PULLING, RunState.CREATING)):
        factories.run(factories.server(on, f"model-{number}", model="glm-5"), state, age=2)
    factories.run(factories.server(on, "minimax-m2.7"), RunState.STARTING, age=4)
    factories.download(on)


def prepare_long() -> None:
    """Names as long as they may be, figures that are missing, hostile text."""
    factories.awkward()
    on = factories.box(BOX, gpus=8)
    name = "minimax-m2.7"
    made = factories.server(on, name, checkpoint="/mnt/models/" + "a-long-folder-name/" * 9 + "x")
    factories.run(made, requests_running=1234567, tokens_per_second=98765.4)
    Profile.objects.filter(slug=SERVER).update(name="W" * 120)
    held = [(4000 + index, 90.0) for index in range(8)]
    factories.tell(on, sample([card(index, held[index : index + 1]) for index in range(8)], []))
    _fill(on, Box.objects.exclude(slug=BOX).get(), name="organisation-of-models/" + "long-" * 30)


def prepare_right_to_left() -> None:
    """Names and texts in Arabic and Hebrew, which stand among English ones."""
    prepare_typical()
    Profile.objects.filter(slug=SERVER).update(
        name="نموذج المحادثة الكبير 2.7", notes="הדגם של הצוות, לא לעצור בלילה"
    )
    factories.person("מאיה", Role.OPERATOR)


STATES = {
    "empty": prepare_empty,
    "typical": prepare_typical,
    "many": prepare_many,
    "failing": prepare_failing,
    "loading": prepare_loading,
    "long": prepare_long,
    "rtl": prepare_right_to_left,
}


def prepare(state: str) -> None:
    STATES[state]()


def _fill(on: Box, other: Box, name: str = "Qwen/Qwen3-8B") -> None:
    """Models, images and alerts, as people who have worked for a while have them."""
    now = timezone.now()
    for box in (on, other):
        factories.observation(ModelInventory, box, looked_at=now)
        shelves.shelf(box)
    factories.stored(on, name)
    factories.stored(on, "zai-org/GLM-5-FP8", weights=705 * GIB, size=705 * GIB)
    factories.stored(other, "unsloth/gemma-3-4b-it-GGUF", format="gguf", state="incomplete")
    shelves.stored_image(on)
    shelves.stored_image(on, 0xD4E5F6, tags=["lmsysorg/sglang:latest-cu130"], engine="sglang")
    shelves.tag_news(on, reference="lmsysorg/sglang:latest-cu130")
    factories.alert(on)
    factories.group()
    factories.outlet()
    factories.exchange(factories.person("grace", Role.OPERATOR))

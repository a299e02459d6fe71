import pytest

from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Gpu, GpuRequirement, parse_gpu_requirement
from servers.launch.recipes.document import Document, fits_hardware
from tests.cases import table

PRO: Gpu = ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0")
MAX_Q: Gpu = ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "12.0")
GB300: Gpu = ("NVIDIA GB300", "10.3")
GB10: Gpu = ("NVIDIA GB10", "12.1")


def document(hardware: str = "", *, boxes: int = 1, gpus: str = "all") -> Document:
    launch = Launch(engine="vllm", image="i", checkpoint="c", hardware=hardware, gpus=gpus)
    return Document(name="a", launch=launch, boxes=boxes)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("4x RTX PRO 6000", GpuRequirement(count=4, name="RTX PRO 6000")),
        (" 1 × sm_120 ", GpuRequirement(count=1, name="sm_120")),
        ("8X H200", GpuRequirement(count=8, name="H200")),
        ("RTX PRO 6000", None),
        ("0x H200", None),
        ("4x", None),
        ("", None),
    ],
)
def test_hardware_is_a_count_and_a_name(text: str, read: GpuRequirement | None) -> None:
    assert parse_gpu_requirement(text) == read


@table(
    ("name", "gpu", "is_so"),
    [
        ("RTX PRO 6000", PRO, True),
        ("rtx pro 6000", MAX_Q, True),
        ("RTX PRO 6000 Max-Q", MAX_Q, False),  # NVML writes Blackwell in between
        ("Max-Q", MAX_Q, True),
        ("Max-Q", PRO, False),
        ("RTX 6000", PRO, False),
        ("GB10", GB300, False),
        ("GB300", GB300, True),
        ("A100", ("NVIDIA A100-SXM4-80GB", "8.0"), True),
        ("sm_120", PRO, True),
        ("sm_120a", PRO, True),
        ("sm_120", GB10, False),
        ("sm_90", ("NVIDIA H200", "9.0"), True),
        ("sm_90", ("NVIDIA H200", ""), False),
        ("H200", ("", "9.0"), False),
        ("-", ("NVIDIA H200", "9.0"), False),
    ],
)
def test_a_gpu_is_known_by_its_name_or_its_compute_capability(
    name: str, gpu: Gpu, is_so: bool
) -> None:
    assert GpuRequirement(count=1, name=name).fits(gpu) is is_so


@table(
    ("wanted", "gpus", "is_fit", "sentence"),
    [
        (document("4x RTX PRO 6000"), [PRO, PRO, PRO, MAX_Q], True, "fits this box"),
        (document("1x GB300"), [GB300, PRO], True, "fits this box"),
        (
            document("4x RTX PRO 6000"),
            [PRO, PRO],
            False,
            "needs 4x RTX PRO 6000; this box has 2",
        ),
        (
            document("4x RTX PRO 6000"),
            [GB300, GB10, GB10],
            False,
            "needs 4x RTX PRO 6000; this box has 1x GB300, 2x GB10",
        ),
        (document("1x sm_103"), [], False, "needs 1x sm_103; this box has no GPU"),
        (document("2x GB10", boxes=2), [GB10], False, "needs two boxes: not startable yet"),
        (document(boxes=5), [GB10], False, "needs 5 boxes: not startable yet"),
        (document(gpus="none"), [], True, "needs no GPU"),
        (document(), [GB10], True, "does not say which GPUs it needs; this box has 1x GB10"),
        (document(), [], False, "does not say which GPUs it needs; this box has no GPU"),
        (document("a big one"), [GB10], True, "made for “a big one”; this box has 1x GB10"),
    ],
)
def test_whether_a_box_has_what_a_recipe_needs_is_a_sentence(
    wanted: Document, gpus: list[Gpu], is_fit: bool, sentence: str
) -> None:
    found = fits_hardware(wanted, gpus)

    assert (found.is_fit, found.sentence) == (is_fit, sentence)

"""Model files of github.com/vllm-project/recipes (models/ORG/NAME.yaml), read as profiles.

Source: that repository's CONTRIBUTING.md. Where two blocks set a flag, the later one holds:
model, variant, hardware, parallelism, features.
"""

from collections.abc import Iterable, Iterator

from servers.launch.engines.change import split_flags
from servers.launch.engines.launch import Launch
from servers.launch.recipes import notation
from servers.launch.recipes.document import Document, RecipeSource
from servers.launch.recipes.notation import Mapping

SITE = "https://recipes.vllm.ai"
IMAGE = "vllm/vllm-openai:latest"  # what the repository's own page takes where a file names none
_PARALLEL = "--tensor-parallel-size"


def documents(
    text: str, *, where: str, gpus: int = 1, generation: str = ""
) -> tuple[Document, ...]:
    """One profile for each variant of the file, for one box of NVIDIA GPUs.

    `gpus` is how many are to be used, `generation` the repository's word for what they are:
    hopper, blackwell; empty takes what holds for every NVIDIA GPU. Features that the file calls
    optional are left out. Raises DocumentError for other files.
    """
    found = Mapping.parse(text, where=where)
    for key in ("meta", "model", "variants"):
        if key not in found:
            raise found.error(
                f"{key} is missing: this is no model file of vllm-project/recipes, which have "
                "meta, model and variants."
            )
    if not found.get_mapping("model").text("model_id"):
        raise found.get_mapping("model").error("model_id is missing: it says what to serve.")
    variants = found.get_mapping("variants")
    return tuple(
        _document(found, name, variants.get_mapping(name), gpus, generation) for name in variants
    )


def _document(
    found: Mapping, variant_name: str, variant: Mapping, gpus: int, generation: str
) -> Document:
    meta, model = found.get_mapping("meta"), found.get_mapping("model")
    model_id = model.text("model_id")
    title = meta.text("title") or model_id
    hardware = [
        _of_gpu(found.get_mapping("hardware_overrides"), generation),
        _of_gpu(variant.get_mapping("hardware_overrides"), generation),
    ]
    features = [_of_feature(each, generation) for each in _features(found, variant_name, variant)]
    parallel = _parallel(found, variant, gpus)
    words = [
        *model.texts("base_args"),
        *variant.texts("extra_args"),
        *(word for block in hardware for word in block.texts("extra_args")),
        *((_PARALLEL, str(parallel)) if parallel > 1 else ()),
        *(word for args, _env in features for word in args),
    ]
    env = model.get_mapping("base_env").values() | variant.get_mapping("extra_env").values()
    for block in hardware:
        env |= block.get_mapping("extra_env").values()
    for _args, of_feature in features:
        env |= of_feature
    memory = variant.text("vram_minimum_gb")
    return Document(
        name=title if variant_name == "default" else f"{title} {variant_name}",
        notes="\n".join(_notes(found, variant, parallel)).strip() + "\n",
        source=RecipeSource(title=f"vLLM recipes: {title}", url=f"{SITE}/{model_id}"),
        tags=tuple(tag for tag in (model.text("architecture"), variant.text("precision")) if tag),
        launch=Launch(
            engine="vllm",
            image=_image(*reversed(hardware), variant, model),
            checkpoint=variant.text("model_id") or model_id,
            flags=tuple(_last_of_each(words)),
            env=env,
            # Tensor parallelism speaks through shared memory.
            ipc="host" if parallel > 1 else "",
            expected={"GPU memory": f"at least {memory} GB"} if memory else {},
        ),
    )


def _of_gpu(overrides: Mapping, generation: str) -> Mapping:
    """The block of the generation, else the one for all of NVIDIA's."""
    return overrides.get_mapping(generation if generation in overrides else "nvidia")


def _of_feature(feature: Mapping, generation: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Its words and variables; what is said for the GPU takes the place of the rest."""
    block = _of_gpu(feature.get_mapping("hardware_overrides"), generation)
    args = block if "args" in block else feature
    env = block if "env" in block else feature
    return args.texts("args"), env.get_mapping("env").values()


def _features(found: Mapping, variant_name: str, variant: Mapping) -> Iterator[Mapping]:
    """The features that are on by default; of one with several modes, its default mode."""
    features = found.get_mapping("features")
    optional = found.texts("opt_in_features")
    chosen = variant.get_mapping("default_modes")
    for name in features:
        feature = features.get_mapping(name)
        if name in optional and name not in chosen:
            continue
        if "modes" not in feature:
            yield feature
            continue
        modes = feature.get_mapping("modes")
        allowed = [
            mode
            for mode in modes
            if variant_name in (modes.get_mapping(mode).texts("variants") or (variant_name,))
        ]
        preferred = (chosen.text(name), feature.text("default_mode"), *allowed)
        mode = next((mode for mode in preferred if mode in allowed), None)
        if mode is not None:
            yield modes.get_mapping(mode)


def _parallel(found: Mapping, variant: Mapping, gpus: int) -> int:
    """How many GPUs share the model: what the file says, at most as many as there are."""
    strategy = found.get_mapping("strategy_overrides").get_mapping("single_node_tp")
    for block in (variant, strategy):
        if "tp" not in block:
            continue
        declared, key = block, "tp"
        if block.is_mapping("tp"):
            declared = block.get_mapping("tp")
            key = "nvidia" if "nvidia" in declared else "default"
        if key in declared:
            return max(1, min(declared.read(key, notation.number, gpus), gpus))
    return gpus


def _image(*blocks: Mapping) -> str:
    for block in blocks:
        if "docker_image" not in block:
            continue
        if not block.is_mapping("docker_image"):
            return block.text("docker_image")
        if image := block.get_mapping("docker_image").text("nvidia"):
            return image
    return IMAGE


def _last_of_each(words: Iterable[str]) -> Iterator[str]:
    flags: dict[str, tuple[str, ...]] = {}
    for name, values in split_flags(tuple(words)):
        flags.pop(name, None)
        flags[name] = values
    for name, values in flags.items():
        yield from (name, *values) if name else values


def _notes(found: Mapping, variant: Mapping, parallel: int) -> Iterator[str]:
    meta, model = found.get_mapping("meta"), found.get_mapping("model")
    yield meta.text("description")
    if description := variant.text("description"):
        yield f"\n{description}"
    yield ""
    if version := variant.text("min_vllm_version") or model.text("min_vllm_version"):
        yield f"- Needs vLLM {version} or newer."
    if parallel > 1:
        yield f"- The model is spread over {parallel} GPUs."
    only = variant.texts("supported_hardware")
    if only:
        yield f"- Published for {', '.join(only)} only."
    verified = [
        name for name, state in meta.get_mapping("hardware").values().items() if state == "verified"
    ]
    if verified:
        yield f"- Verified by its authors on {', '.join(verified)}."
    for extra in found.mappings("dependencies"):
        # What is to be installed with pip only is in the image already.
        if "docker" not in extra.texts("install_modes"):
            continue
        yield f"- Wants more than the image has: {extra.text('note') or extra.text('command')}"
    if features := ", ".join(found.texts("opt_in_features")):
        yield f"- Left out, as optional: {features}."

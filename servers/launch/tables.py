"""Tables of data, each in a YAML file beside the module that reads it."""

from pathlib import Path
from typing import Any

import yaml

try:
    # libyaml, with which PyYAML is built everywhere but from its source: a tenth of the time.
    from yaml import CSafeLoader as _Fastest
except ImportError:
    from yaml import SafeLoader as _Fastest  # type: ignore[assignment]

FastLoader = _Fastest


def load_yaml(text: str) -> Any:
    """Raises yaml.YAMLError."""
    return yaml.load(text, Loader=FastLoader)  # noqa: S506 - both are safe


# Tables are read at every start; PyYAML's own build in C is there in all of its wheels.


def read_table(module: str | Path) -> Any:
    """What the YAML file of a module says. `module` is its __file__, or the file's own path."""
    path = Path(module).with_suffix(".yaml")
    return load_yaml(path.read_text(encoding="utf-8"))


def freeze(said: Any) -> Any:
    """The same with tuples for lists, for tables that nobody changes."""
    if isinstance(said, dict):
        return {key: freeze(value) for key, value in said.items()}
    return tuple(map(freeze, said)) if isinstance(said, list) else said

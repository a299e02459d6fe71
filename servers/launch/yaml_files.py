"""YAML of the files that come with inferdash: every process reads hundreds of kB of it."""

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

"""The reader of .env files. Variables that are set already win."""

import os
import re
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def read_env_file(path: Path) -> None:
    """Do nothing where there is no such file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read ({error}).") from error
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ImproperlyConfigured(f"{path}, line {number}: write NAME=value, or # before it.")
        os.environ.setdefault(match[1], _unquote(match[2]))


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return re.sub(r"\s+#.*", "", value)

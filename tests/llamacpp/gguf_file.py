"""Writes GGUF files byte by byte, as the format's specification has them."""

import struct
from array import array
from typing import Any

type Pairs = dict[str, Any]
# By name: its shape as GGUF has it, the row's length first, and its values.
type Tensors = dict[str, tuple[tuple[int, ...], array[float]]]

ALIGNMENT = 32
_F32 = 0
_KINDS = ((str, 8), (bool, 7), (float, 6), (int, 5))  # a bool is an int, too


def text(said: str) -> bytes:
    return struct.pack("<Q", len(said.encode())) + said.encode()


def value(said: Any) -> bytes:
    if isinstance(said, bool):
        return struct.pack("<I?", 7, said)
    if isinstance(said, int):
        return struct.pack("<II", 4, said)
    if isinstance(said, float):
        return struct.pack("<If", 6, said)
    if isinstance(said, str):
        return struct.pack("<I", 8) + text(said)
    kind = next(number for type_, number in _KINDS if isinstance(said[0], type_))
    items = b"".join(value(each)[4:] for each in said)
    return struct.pack("<IIQ", 9, kind, len(said)) + items


def header(pairs: Pairs, *, tensors: int = 291, version: int = 3) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", version, tensors, len(pairs))
    return start + b"".join(text(name) + value(said) for name, said in pairs.items())


def tensor_info(name: str, shape: tuple[int, ...], kind: int, *, at: int = 0) -> bytes:
    """`kind`: its number in ggml.h; `at`: where its data begins, counted from all data's."""
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, at)


def whole(pairs: Pairs, tensors: Tensors) -> bytes:
    """A file that an engine can load; values are stored as they are, 32 bits each."""
    infos, data = b"", b""
    for name, (shape, values) in tensors.items():
        infos += tensor_info(name, shape, _F32, at=len(data))
        data += _padded(values.tobytes())
    return _padded(header(pairs, tensors=len(tensors)) + infos) + data


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT)

"""A Hugging Face folder as vLLM's container reads it from `/opt/ml/model`: weights in safetensors, no code.

vLLM's SageMaker image takes its flags from `SM_VLLM_*` variables; LMI (DJL Serving) reads `serving.properties` beside
the weights. Both load the folder that an archive is unpacked to, or that SageMaker fills from an S3 prefix.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from model_packaging.archive import Member
from serving.errors import PackagingError
from serving.protocol.archive import SAMPLE
from serving.protocol.served import FILE_NAME, ServedModel
from serving.spec.container import lmi_properties
from serving.spec.runtime import VllmRuntime

PROPERTIES = "serving.properties"

SUFFIXES = (".json", ".jinja", ".md", ".model", ".safetensors", ".tiktoken", ".txt")
"""What a model needs beside its weights: configuration, tokenizer, chat template, licence."""

_PLAIN_NAMES = ("LICENSE", "NOTICE")
_OWN = frozenset({FILE_NAME, SAMPLE, PROPERTIES})
_INSTALLED = "requirements.txt"
_HEADER = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library itself
_MAX_JSON_BYTES = 256 << 20
"""Of a file that is read whole; tokenizers of a million tokens have a tenth of it."""

_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits of an element (safetensors 0.6, `Dtype::bitsize`)."""

_PICKLE_PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_ZIP = b"PK\x03\x04"


def layout(served: ServedModel, *, runtime: VllmRuntime, folder: Path, sample: bytes | None) -> list[Member]:
    """Give the members of the package: the folder's files at the top, `streamhub.json` beside them.

    Raises:
        PackagingError: with one line a file that has no place in an archive, all of them.

    """
    if not folder.is_dir():
        raise PackagingError(f"{folder}: got no folder; allowed a Hugging Face folder; correct the path of the weights")
    names = _names(folder)
    problems = [f"{folder.name}: {problem}" for problem in folder_problems(folder)]
    problems += [
        f"{folder.name}: {name}: got a name that packaging writes; rename it" for name in sorted(_OWN & set(names))
    ]
    if sample is not None:
        problems += _json_problems(sample, SAMPLE)
    if problems:
        raise PackagingError("\n".join(problems))
    members = [Member(name, folder / name) for name in names]
    members.append(Member(FILE_NAME, served.to_json()))
    if runtime.container == "lmi":
        members.append(Member(PROPERTIES, _properties(runtime)))
    if sample is not None:
        members.append(Member(SAMPLE, sample))
    return members


def packaged_problems(folder: Path, runtime: VllmRuntime) -> Iterator[str]:
    """Give every reason why an unpacked package is not what its container should load."""
    yield from folder_problems(folder)
    path = folder / PROPERTIES
    allowed = _properties(runtime) if runtime.container == "lmi" else None
    with_it = path.is_file()
    if with_it != (allowed is not None) or (with_it and path.read_bytes() != allowed):
        yield (
            f"{PROPERTIES}: got {'other options' if with_it else 'no such file'}; allowed those of streamhub.json for "
            f"container {runtime.container!r}; package it again"
        )


def _properties(runtime: VllmRuntime) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in lmi_properties(runtime).items()).encode()


def folder_problems(folder: Path) -> Iterator[str]:
    """Give every reason why a folder, packaged or not yet, is not what vLLM should load."""
    names = _names(folder)
    if "config.json" not in names:
        yield "got no config.json; allowed a Hugging Face folder; save the model with save_pretrained"
    if not any(name.endswith(".safetensors") for name in names):
        yield "got no *.safetensors; allowed weights in safetensors only; save with safe_serialization=True"
    if not any(name.startswith("tokenizer") for name in names):
        yield "got no tokenizer*; allowed a folder with its tokenizer; save the tokenizer beside the model"
    for name in names:
        yield from _file_problems(folder / name, name)


def _names(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _file_problems(path: Path, name: str) -> Iterator[str]:
    """Look at a file's kind, then its name, then its content."""
    if path.is_symlink() or not path.is_file():
        yield f"{name}: got a link or special file; allowed plain files; copy the folder with `cp -rL`"
        return
    if path.name == _INSTALLED:
        yield f"{name}: got a list that LMI would install at start; allowed no packages; use an image that has them"
        return
    if not name.endswith(SUFFIXES) and path.name not in _PLAIN_NAMES and name != PROPERTIES:
        yield (
            f"{name}: got a file that may hold code or pickled objects; allowed {', '.join(SUFFIXES)}; "
            f"convert weights to safetensors and leave the rest out"
        )
        return
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if head.startswith((*_PICKLE_PROTOCOLS, _ZIP)) and not name.endswith(".safetensors"):
            yield f"{name}: got pickled or zipped content under that name; allowed plain data; convert it"
        elif name.endswith(".safetensors"):
            yield from _safetensors_problems(file.read(_header_bytes(head)), head, path.stat().st_size, name)
        elif name.endswith(".json"):
            yield from _json_problems(head + file.read(_MAX_JSON_BYTES), name)


def _json_problems(data: bytes, name: str) -> Iterator[str]:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        yield f"{name}: got no JSON ({error.msg} at {error.pos}); allowed JSON; save it again"


def _header_bytes(head: bytes) -> int:
    return min(int(_HEADER.unpack(head)[0]), _MAX_HEADER_BYTES) if len(head) == _HEADER.size else 0


def _safetensors_problems(header: bytes, head: bytes, size: int, name: str) -> Iterator[str]:
    """Check the format's own promise: a JSON header whose tensors fill the rest of the file without holes."""
    try:
        table = orjson.loads(header)
        spans = sorted(_span(entry) for key, entry in table.items() if key != "__metadata__")
        start = _HEADER.size + _header_bytes(head)
        end = 0
        for first, last in spans:
            if first != end or last < first:
                raise ValueError("tensors that leave holes or overlap")  # noqa: TRY301 - one text for every defect
            end = last
        if start + end != size:
            raise ValueError(f"{size} bytes where the header says {start + end}")  # noqa: TRY301
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        yield f"{name}: got no whole safetensors file ({error}); allowed one as the library writes it; save it again"


def _span(entry: dict[str, Any]) -> tuple[int, int]:
    """Give where a tensor's bytes begin and end, which its type and shape must account for."""
    first, last = entry["data_offsets"]
    shape = entry["shape"]
    if not all(type(number) is int and number >= 0 for number in (first, last, *shape)):
        raise ValueError(f"offsets {first} to {last} and shape {shape}")
    bits = _BITS[entry["dtype"]] * math.prod(shape)
    if bits != (last - first) * 8:
        raise ValueError(f"{last - first} bytes of {entry['dtype']} {shape}")
    return first, last

"""Finds pickles in files and in archives within them; nothing is ever loaded.

A plain pickle is refused whatever it names. PyTorch's own zip archives (TorchScript, torch.export, weights of
torch.save) hold pickles by design: theirs may name only what PyTorch's loader rebuilds tensors and modules with.
"""

from __future__ import annotations

import ast
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from model_packaging.pickle_opcodes import NAMELESS, UNREADABLE, Import, read_opcodes
from model_packaging.zip_directory import moved_directory

TORCH_SUFFIXES = (".pt", ".pt2", ".pth")
"""Zip archives of PyTorch; any other zip may hold no pickle at all."""

PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib", ".dill", ".ckpt", *TORCH_SUFFIXES)
"""Files whose readers unpickle; what is under such a name and is no zip of PyTorch has no other use."""

_NUMPY_SUFFIXES = (".npy", ".npz")
"""NumPy's reader unpickles what has neither of its two magic numbers."""

_DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"
_STORAGES = "Double Float Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble QInt8 QUInt8 QInt32"
_REBUILDERS = "_rebuild_tensor _rebuild_tensor_v2 _rebuild_parameter _rebuild_qtensor"
_INTRINSICS = "build_boollist build_doublelist build_intlist build_tensor_from_id build_tensorlist restore_type_tag"

TORCH_GLOBALS = frozenset(
    {
        "collections.OrderedDict",
        "torch.Size",
        "torch.device",
        "torch.nn.parameter.Parameter",
        "torch.storage.UntypedStorage",
        "torch.per_tensor_affine",
        "torch.per_channel_affine",
        *(f"torch.{name}" for name in _DTYPES.split()),
        *(f"torch.{name}Storage" for name in _STORAGES.split()),
        *(f"torch._utils.{name}" for name in _REBUILDERS.split()),
        *(f"torch.jit._pickle.{name}" for name in _INTRINSICS.split()),
    }
)
"""A subset of what `torch.load(weights_only=True)` allows (torch/_weights_only_unpickler.py), and what TorchScript's
own pickler writes (torch/csrc/jit/serialization/pickler.h)."""

_TORCHSCRIPT_CLASS = re.compile(r"__torch__(\.\w+)+", re.ASCII)
"""A class whose code is TorchScript inside the same archive; no Python module has that name."""

_PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_ZIP_SUFFIXES = (*TORCH_SUFFIXES, ".npz", ".zip", ".ckpt", ".bin")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
UNREADABLE_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    EOFError,
)
"""What Python's reader raises on a zip archive that is damaged or of an unknown kind."""

_NPY = b"\x93NUMPY"
_NPY_HEADER_BYTES = 1 << 16
_MAX_DEPTH = 3  # a .pt2 holds torch.save's archives; nothing holds more
_MAX_MEMBERS = 65_536


def pickle_problems(path: Path, name: str) -> Iterator[str]:
    """Give every reason why a file could run code when it is read, one line each, at constant memory.

    Args:
        path: the file; it is read, never loaded.
        name: how the finding calls it; its suffix says who would read it.

    """
    with path.open("rb") as file:
        yield from stream_problems(file, name)


def stream_problems(file: IO[bytes], name: str, *, depth: int = 0) -> Iterator[str]:
    """Do the same for an open file, which must be seekable; `depth` counts the archives around it."""
    suffix = PurePosixPath(name).suffix.lower()
    head = file.read(len(_NPY))
    zipped = head.startswith(_ZIP) or (suffix in _ZIP_SUFFIXES and zipfile.is_zipfile(file))
    file.seek(0)
    if zipped:
        yield from _zip_problems(file, name, torch=suffix in TORCH_SUFFIXES, depth=depth)
        file.seek(0)
    if head.startswith(_ZIP):
        return
    # a zip is found by its end, a pickle by its start: a file may be both
    if head.startswith(_NPY):
        yield from _npy_problems(file, name)
    elif head.startswith(_PROTOCOLS) or suffix in (*PICKLE_SUFFIXES, *_NUMPY_SUFFIXES, ".bin"):
        yield from _plain_problems(file, name, suffix, head)


def _plain_problems(file: IO[bytes], name: str, suffix: str, head: bytes) -> Iterator[str]:
    found = read_opcodes(file)
    unpickled = suffix in (*PICKLE_SUFFIXES, *_NUMPY_SUFFIXES)
    declared = head.startswith(_PROTOCOLS) or unpickled
    imports = found.imports if declared else tuple(each for each in found.imports if _could_run(each))
    if imports or (found.whole and declared):
        told = imports[0] if imports else f"{found.first} at byte 0"
        yield f"{name}: got a pickle: {told}; allowed no pickle; save weights as ONNX or safetensors"
    elif unpickled:
        yield (
            f"{name}: got a file that by its name is unpickled, and is no zip archive of PyTorch and no array of "
            f"NumPy; allowed no pickle; save weights as ONNX or safetensors"
        )


def _could_run(found: Import) -> bool:
    """Say whether an opcode could import anything: in bytes that are no pickle, one in thirty reads as one of them."""
    return found.name not in {NAMELESS, UNREADABLE} and not found.opcode.startswith("EXT")


def _npy_problems(file: IO[bytes], name: str) -> Iterator[str]:
    """Read the header alone, a Python literal (NEP 1): NumPy reads a field of objects by unpickling."""
    file.seek(len(_NPY))
    layout = struct.Struct("<H" if file.read(2)[:1] == b"\x01" else "<I")
    try:
        length = layout.unpack(file.read(layout.size))[0]
        header = ast.literal_eval(file.read(min(length, _NPY_HEADER_BYTES)).decode("latin-1"))
        objects = np.lib.format.descr_to_dtype(header["descr"]).hasobject
    except (struct.error, SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError):
        yield f"{name}: got no readable NPY header; allowed an array of numbers; save it again"
        return
    if objects:
        imports = read_opcodes(file).imports
        detail = f": {imports[0]}" if imports else ""
        yield f"{name}: got an array of objects, a pickle{detail}; allowed numbers; save with allow_pickle=False"


def _zip_problems(file: IO[bytes], name: str, *, torch: bool, depth: int) -> Iterator[str]:
    """Look into each member; a member that is compressed is looked at as a stream, an inner zip must be stored."""
    if depth == _MAX_DEPTH:
        yield f"{name}: got archives within archives; allowed {_MAX_DEPTH}; save it again"
        return
    try:
        with zipfile.ZipFile(file) as archive:
            if torch and (moved := moved_directory(file)):
                yield f"{name}: got {moved}; allowed an archive as PyTorch writes it; save it again"
                return
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                yield f"{name}: got {len(members)} members; allowed {_MAX_MEMBERS}; save it again"
                return
            for member in members:
                with archive.open(member) as inside:
                    yield from _member_problems(inside, f"{name}!{member.filename}", torch=torch, depth=depth)
    except UNREADABLE_ZIP as error:
        yield f"{name}: got a zip archive that cannot be read ({error}); allowed a whole one; save it again"


def _member_problems(member: IO[bytes], name: str, *, torch: bool, depth: int) -> Iterator[str]:
    if not torch:
        yield from stream_problems(member, name, depth=depth + 1)
        return
    head = member.read(len(_NPY))
    member.seek(0)
    if not (name.endswith(".pkl") or head.startswith(_PROTOCOLS)):
        yield from stream_problems(member, name, depth=depth + 1)
        return
    for found in read_opcodes(member).imports:
        if found.name not in TORCH_GLOBALS and not _TORCHSCRIPT_CLASS.fullmatch(found.name):
            yield (
                f"{name}: got a pickle: {found}; allowed what PyTorch rebuilds tensors with; "
                f"save a state dict, TorchScript or torch.export"
            )

"""Finds pickles by reading their opcodes; nothing is ever loaded.

A pickle is a program (https://docs.python.org/3/library/pickle.html): the globals it names decide what it may do.
A plain pickle is refused whatever it names. PyTorch's own zip archives (TorchScript, torch.export, weights of
torch.save) hold pickles by design: theirs may name only what PyTorch's loader rebuilds tensors and modules with.
"""

from __future__ import annotations

import ast
import io
import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

import numpy as np

TORCH_SUFFIXES = (".pt", ".pt2", ".pth")
"""Zip archives of PyTorch; any other zip may hold no pickle at all."""

PICKLE_SUFFIXES = (".pkl", ".pickle", ".joblib", ".dill", ".ckpt", *TORCH_SUFFIXES)
"""Files whose readers unpickle; what is under such a name and is no zip of PyTorch has no other use."""

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
_NPY = b"\x93NUMPY"
_NPY_HEADER_BYTES = 1 << 16
_MAX_ARGUMENT_BYTES = 64 << 20
_MAX_OPCODES = 5_000_000
_MAX_DEPTH = 3  # a .pt2 holds torch.save's archives; nothing holds more
_MAX_MEMBERS = 65_536
_NAMING = frozenset({"GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"})
_STORING = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_FETCHING = frozenset({"GET", "BINGET", "LONG_BINGET"})


@dataclass(frozen=True, slots=True)
class Import:
    """One opcode that imports: `name` is `module.attribute`, or what little of it can be told without running it."""

    opcode: str
    name: str
    offset: int

    def __str__(self) -> str:
        """Give it as it is named in a finding."""
        return f"{self.opcode} {self.name} at byte {self.offset}"


@dataclass(frozen=True, slots=True)
class Opcodes:
    """What a stream of opcodes says: every import, its first opcode, and whether it comes to its STOP."""

    imports: tuple[Import, ...]
    first: str
    whole: bool


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
    elif head.startswith(_PROTOCOLS) or suffix in PICKLE_SUFFIXES or suffix == ".bin":
        yield from _plain_problems(file, name, suffix, head)


def read_opcodes(file: IO[bytes]) -> Opcodes:
    """Read opcodes up to STOP or to bytes that are none; what is imported before those would be run by a reader."""
    imports: list[Import] = []
    first, whole, count = "", False, 0
    names = _Names()
    try:
        for opcode, argument, position in pickletools.genops(cast("IO[bytes]", _Bounded(file))):
            first = first or opcode.name
            count += 1
            if count > _MAX_OPCODES:
                imports.append(Import("more than", f"{_MAX_OPCODES} opcodes", position or 0))
                break
            if opcode.name in _NAMING:
                imports.append(Import(opcode.name, _imported(opcode.name, argument, names), position or 0))
            names.see(opcode.name, argument)
            whole = opcode.name == "STOP"
    except (ValueError, struct.error, OverflowError):
        pass  # not a pickle from here on
    return Opcodes(tuple(imports), first, whole)


class _Names:
    """The strings on top of the pickle's stack, as far as they can be told without running it.

    Anything but a string and its memo empties the list, so that no opcode can swap a name unseen.
    """

    def __init__(self) -> None:
        self.top: list[str | None] = []
        self._memo: dict[int, str | None] = {}
        self._stored = 0

    def see(self, opcode: str, argument: object) -> None:
        """Follow one opcode."""
        if opcode in _STORING:
            key = argument if isinstance(argument, int) else self._stored
            self._memo[key] = self.top[-1] if self.top else None
            self._stored += 1
        elif opcode in _FETCHING and isinstance(argument, int):
            self.top = [*self.top[-1:], self._memo.get(argument)]
        elif isinstance(argument, str) and opcode not in _NAMING:
            self.top = [*self.top[-1:], argument]
        elif opcode not in {"FRAME", "PROTO"}:
            self.top = []


def _imported(opcode: str, argument: object, names: _Names) -> str:
    if opcode in {"GLOBAL", "INST"}:
        return str(argument).replace(" ", ".", 1)
    if opcode == "STACK_GLOBAL" and len(names.top) > 1 and None not in names.top:
        return ".".join(str(name) for name in names.top[-2:])
    return f"extension {argument}" if opcode.startswith("EXT") else "of a computed name"


class _Bounded(io.RawIOBase):
    """A file of which no single argument may fill the memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Give `size` bytes."""
        if not 0 <= size <= _MAX_ARGUMENT_BYTES:
            raise ValueError("an argument that is no plausible one")
        return self._file.read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Give one line."""
        del size
        return self._file.readline(_MAX_ARGUMENT_BYTES)

    def tell(self) -> int:
        """Where it stands."""
        return self._file.tell()


def _plain_problems(file: IO[bytes], name: str, suffix: str, head: bytes) -> Iterator[str]:
    found = read_opcodes(file)
    declared = head.startswith(_PROTOCOLS) or suffix in PICKLE_SUFFIXES
    if found.imports or (found.whole and declared):
        told = found.imports[0] if found.imports else f"{found.first} at byte 0"
        yield f"{name}: got a pickle: {told}; allowed no pickle; save weights as ONNX or safetensors"
    elif suffix in PICKLE_SUFFIXES:
        yield (
            f"{name}: got a file that by its name is unpickled, and is no zip archive of PyTorch; allowed no pickle; "
            f"save weights as ONNX or safetensors"
        )


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
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS:
                yield f"{name}: got {len(members)} members; allowed {_MAX_MEMBERS}; save it again"
                return
            for member in members:
                with archive.open(member) as inside:
                    yield from _member_problems(inside, f"{name}!{member.filename}", torch=torch, depth=depth)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, EOFError) as error:
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

"""Reads the opcodes of pickles, one by one, and tells what they would import; nothing is ever loaded.

A pickle is a program (https://docs.python.org/3/library/pickle.html): the globals it names decide what it may do. Where
readers differ, what any of them would go on to read is read here.
"""

from __future__ import annotations

import io
import pickletools
import struct
from dataclasses import dataclass
from typing import IO, Self, cast

_MAX_ARGUMENT_BYTES = 64 << 20
_MAX_LINE_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
_MAX_OPCODES = 5_000_000
_NAMING = frozenset({"GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"})
_TEXTS = frozenset(
    {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
)
_STORING = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_FETCHING = frozenset({"GET", "BINGET", "LONG_BINGET"})
_LINES = frozenset({"STRING", "UNICODE", "INT", "LONG", "FLOAT", "PERSID", "PUT", "GET"})
"""Opcodes with one line as their argument: wherever that line is no argument, the next opcode stands behind it."""

COMPUTED = "of a computed name"
NAMELESS = "of a name that is not there"
UNREADABLE = "of an unreadable name"
_BY_CODE = {opcode.code: opcode for opcode in pickletools.opcodes}


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


def read_opcodes(file: IO[bytes]) -> Opcodes:
    """Read opcodes up to bytes that are none, where every reader stops; what is imported before those would be run.

    A pickle behind the STOP of another is read too: PyTorch's old format is a row of them. A line that is no argument
    here may be one to another reader (hexadecimal numbers, other encodings): it is passed over.
    """
    imports: list[Import] = []
    first, whole = "", False
    names, stream = _Names(), cast("IO[bytes]", _Bounded(file))
    for count in range(_MAX_OPCODES + 1):
        position = stream.tell()
        opcode = _BY_CODE.get(stream.read(1).decode("latin-1"))
        if opcode is None:
            break
        first = first or opcode.name
        if count == _MAX_OPCODES:
            imports.append(Import("more than", f"{_MAX_OPCODES} opcodes", position))
            break
        try:
            argument = opcode.arg.reader(stream) if opcode.arg is not None else None
        except (ValueError, struct.error, OverflowError):
            if opcode.name in _NAMING:
                imports.append(Import(opcode.name, UNREADABLE, position))
            if opcode.name not in _LINES:
                break
            argument = None
        if opcode.name in _NAMING:
            imports.append(Import(opcode.name, _imported(opcode.name, argument, names), position))
        names.see(opcode.name, argument)
        if opcode.name == "STOP":
            whole, names = True, _Names()
    return Opcodes(tuple(imports), first, whole)


class _Names:
    """The strings on top of the pickle's stack, as far as they can be told without running it.

    Anything but a string and its memo empties the list, so that no opcode can swap a name unseen; a place of the memo
    that is written twice holds no name any more.
    """

    def __init__(self) -> None:
        self.top: list[str | None] = []
        self.texts = 0
        self._memo: dict[int, str | None] = {}

    def see(self, opcode: str, argument: object) -> None:
        """Follow one opcode."""
        if opcode in _STORING:
            key = argument if isinstance(argument, int) else len(self._memo)
            self._memo[key] = self.top[-1] if self.top and key not in self._memo else None
        elif opcode in _FETCHING and isinstance(argument, int):
            self.top = [*self.top[-1:], self._memo.get(argument)]
        elif opcode in _TEXTS:
            self.top = [*self.top[-1:], argument if isinstance(argument, str) else None]
            self.texts += 1
        elif opcode not in {"FRAME", "PROTO"}:
            self.top = []


def _imported(opcode: str, argument: object, names: _Names) -> str:
    if opcode in {"GLOBAL", "INST"}:
        return str(argument).replace(" ", ".", 1)
    if opcode == "STACK_GLOBAL" and len(names.top) > 1 and None not in names.top:
        return ".".join(str(name) for name in names.top[-2:])
    if opcode.startswith("EXT"):
        return f"extension {argument}"
    return COMPUTED if names.texts > 1 else NAMELESS


class _Bounded(io.RawIOBase):
    """A file of which no single argument may fill the memory: what is longer is passed over, and its length told."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Give `size` bytes, or what stands for them."""
        if size < 0:
            raise ValueError("an argument that is no plausible one")
        if size <= _MAX_ARGUMENT_BYTES:
            return self._file.read(size)
        self._file.seek(size, io.SEEK_CUR)  # behind the end there is no further opcode
        return _PassedOver(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Give one line, or the beginning of a longer one, which is no number and no name."""
        del size
        line = self._file.readline(_MAX_LINE_BYTES)
        if len(line) < _MAX_LINE_BYTES or line.endswith(b"\n"):
            return line
        while (rest := self._file.readline(_CHUNK_BYTES)) and not rest.endswith(b"\n"):
            pass
        return line[:1] + b"\xff\n"

    def tell(self) -> int:
        """Where it stands."""
        return self._file.tell()


class _PassedOver(bytes):
    """Stands for bytes that nobody holds: none of them, but their number."""

    _size: int

    def __new__(cls, size: int) -> Self:
        """Stand for that many bytes."""
        self = super().__new__(cls)
        self._size = size
        return self

    def __len__(self) -> int:
        return self._size

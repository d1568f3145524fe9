"""The one safe reader of `model.tar.gz`: everything is checked before the folder appears under its name.

Two layouts, as their containers want them:
  Triton  <name>/streamhub.json, <name>/config.pbtxt, <name>/1/model.onnx, <name>/samples/request.json
  vLLM    streamhub.json, config.json, *.safetensors, …, samples/request.json
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serving.errors import ArchiveError
from serving.protocol.served import FILE_NAME, ServedModel
from serving.spec.runtime import TritonRuntime

MAX_FILES = 4096
MAX_BYTES = 64 << 30
"""Unpacked bytes of one archive; a larger model belongs in an uncompressed S3 prefix."""

SAMPLE = "samples/request.json"
_MAX_HEADER_BYTES = 1 << 20
_BLOCK = 1 << 16
_CHUNK = 1 << 20
_MAX_NAME_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """An unpacked archive: `model` is the ONNX file (Triton) or the Hugging Face folder (vLLM)."""

    root: Path
    served: ServedModel
    model: Path
    sample: Path | None


def unpack(archive: Path, into: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> ModelFolder:
    """Unpack an archive to `into`, which must be missing or empty; after an error nothing of it is there.

    Raises:
        ArchiveError: truncated, unsafe, too large, or not what its container needs.

    """
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ArchiveError(f"{into}: got a folder in use; allowed a missing or an empty one; choose another")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as temporary:
        inside = Path(temporary) / "model"
        inside.mkdir()
        _extract(archive, inside, max_files=max_files, max_bytes=max_bytes)
        open_folder(inside, named=archive.name)
        inside.rename(into)
    return open_folder(into, named=archive.name)


def open_folder(root: Path, *, named: str = "") -> ModelFolder:
    """Read what an unpacked archive holds.

    Raises:
        ArchiveError: it is not what its container needs.

    """
    where = named or str(root)
    if (root / FILE_NAME).is_file():
        return _vllm_folder(root, where)
    folders = [path for path in sorted(root.iterdir()) if path.is_dir()]
    strays = [path.name for path in sorted(root.iterdir()) if not path.is_dir()]
    if len(folders) != 1 or strays or not (folders[0] / FILE_NAME).is_file():
        got = ", ".join([f"{path.name}/" for path in folders] + strays)
        raise ArchiveError(
            f"{where}: got {got or 'nothing'} at the top and no {FILE_NAME}; allowed one folder <name>/ with "
            f"{FILE_NAME} (Triton), or {FILE_NAME} beside the model's files (vLLM); package it with `streamhub package`"
        )
    return _triton_folder(root, folders[0], where)


def _triton_folder(root: Path, folder: Path, where: str) -> ModelFolder:
    served = ServedModel.from_json((folder / FILE_NAME).read_bytes())
    if not isinstance(served.runtime, TritonRuntime) or served.name != folder.name:
        raise ArchiveError(
            f"{where}: got a {served.runtime.kind} model {served.name!r} in folder {folder.name}/; "
            f"allowed a triton model in a folder of its name; package it with `streamhub package`"
        )
    model = folder / "1" / "model.onnx"
    _need(where, root, (model, folder / "config.pbtxt"))
    return ModelFolder(root=root, served=served, model=model, sample=_sample(folder))


def _vllm_folder(root: Path, where: str) -> ModelFolder:
    served = ServedModel.from_json((root / FILE_NAME).read_bytes())
    if isinstance(served.runtime, TritonRuntime):
        raise ArchiveError(
            f"{where}: got a triton model at the top; allowed one folder {served.name}/ that holds it "
            f"(Triton refuses files at the top); package it with `streamhub package`"
        )
    _need(where, root, (root / "config.json",))
    return ModelFolder(root=root, served=served, model=root, sample=_sample(root))


def _need(where: str, root: Path, files: tuple[Path, ...]) -> None:
    missing = [path.relative_to(root).as_posix() for path in files if not path.is_file()]
    if missing:
        raise ArchiveError(
            f"{where}: got no {' and no '.join(missing)}; its container needs it; package it with `streamhub package`"
        )


def _sample(folder: Path) -> Path | None:
    path = folder / SAMPLE
    return path if path.is_file() else None


class _Metered(io.BufferedIOBase):
    """The unpacked bytes, of which only `left` may be read: neither a header nor the padding can grow without end."""

    def __init__(self, stream: io.BufferedIOBase, name: str) -> None:
        self.left = 0
        self._stream = stream
        self._name = name

    def read(self, size: int | None = -1, /) -> bytes:
        """Give at most `size` bytes."""
        wanted = self.left + 1 if size is None or size < 0 else min(size, self.left + 1)
        # one byte beyond what is allowed tells the end of the stream from a stream that goes on
        data = self._stream.read(wanted)
        self.left -= len(data)
        if self.left < 0:
            raise ArchiveError(
                f"{self._name}: got more than {_MAX_HEADER_BYTES} bytes that belong to no file; "
                f"allowed plain headers and padding; package it with `streamhub package`"
            )
        return data


def _extract(archive: Path, into: Path, *, max_files: int, max_bytes: int) -> None:
    with _reading(archive), gzip.open(archive, "rb") as plain:
        metered = _Metered(plain, archive.name)
        metered.left = _MAX_HEADER_BYTES
        with tarfile.open(fileobj=metered, mode="r|", bufsize=_BLOCK) as tar:
            count, left = 0, max_bytes
            while (member := _next(tar, metered)) is not None:
                count, left = count + 1, left - member.size
                if count > max_files or left < 0 or member.size < 0:
                    raise ArchiveError(
                        f"{archive.name}: got more than its limits at {member.name!r}; allowed {max_files} files and "
                        f"{max_bytes} bytes unpacked; leave out what the container does not read"
                    )
                metered.left = member.size + _BLOCK
                _write(tar, member, into, archive.name)
        metered.left = _MAX_HEADER_BYTES
        while metered.read(_CHUNK):  # to the end, where gzip checks its CRC
            pass


def _next(tar: tarfile.TarFile, metered: _Metered) -> tarfile.TarInfo | None:
    metered.left = _MAX_HEADER_BYTES
    return tar.next()


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ArchiveError(f"{archive}: got no such file; allowed a model.tar.gz; check the path") from None
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise ArchiveError(
            f"{archive.name}: got bytes that are no whole tar.gz ({error}); allowed what `streamhub package` writes; "
            f"fetch or package it again"
        ) from None


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path, archive: str) -> None:
    target = into / _relative(member, archive)
    try:
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        if source is not None:
            with target.open("xb") as out:
                shutil.copyfileobj(source, out, _CHUNK)
    except (FileExistsError, NotADirectoryError):
        raise ArchiveError(
            f"{archive}: got member {member.name!r} twice; allowed each name once; package it again"
        ) from None


def _relative(member: tarfile.TarInfo, archive: str) -> Path:
    name = member.name
    parts = [part for part in name.split("/") if part not in {"", "."}]
    plain = member.type in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE} and not member.issparse()
    short = all(len(part.encode()) <= _MAX_NAME_BYTES for part in parts)
    if not plain or not short or name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        raise ArchiveError(
            f"{archive}: got member {name!r} of type {member.type.decode(errors='replace')!r}; allowed plain files and "
            f"folders below the archive's top, a name of at most {_MAX_NAME_BYTES} bytes; "
            f"package it without links, devices, absolute or parent paths"
        )
    return Path(*parts)

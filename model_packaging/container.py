"""The build context of an image that serves a TorchServe archive or a bento under SageMaker's container contract.

Source: Amazon SageMaker guide, *Custom inference code with hosting services*. The same inputs give the same files.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from model_packaging.archive import Member, Progress, WrittenArchive
from model_packaging.bento import BENTO, bento_app
from model_packaging.container_app import ContainerApp
from model_packaging.prefix import write_prefix
from model_packaging.torchserve import MANIFEST, torchserve_app
from model_packaging.unzip import unzip
from serving.errors import PackagingError

_BASE = re.compile(r"[a-z0-9][a-z0-9._/-]*(:[0-9]+/[a-z0-9._/-]+)?(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?@sha256:[0-9a-f]{64}")

_INSTALL = """\
COPY requirements.txt ./
RUN pip install --no-cache-dir --no-deps -r requirements.txt
"""

_DOCKERFILE = """\
# {server}: {name} {version}. Written by `streamhub context`; change its input and write it again.
FROM {base}
USER 0:0
ENV {environment}
WORKDIR /opt/app
{install}COPY --chmod=755 app ./
WORKDIR /opt/app/{folder}
# root owns the code and the process only reads it; AWS documents root alone: --build-arg RUN_AS=0:0 gives it
ARG RUN_AS=10001:10001
USER ${{RUN_AS}}
EXPOSE 8080
ENTRYPOINT ["python", "/opt/app/{entry}"]
CMD ["serve"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenContext:
    """A context on disk: its folder, what it serves, and the digest of the sorted list of its files."""

    path: Path
    app: ContainerApp
    written: WrittenArchive


def write_context(
    source: Path, *, base: str, out_dir: Path, api: str | None = None, progress: Progress | None = None
) -> WrittenContext:
    """Write `out_dir`/NAME-VERSION.context at once or not at all; one of an earlier run is replaced.

    Args:
        source: a `.mar`, a folder with MAR-INF/, or the folder of a built bento.
        base: the image to build on, by digest: one with TorchServe, or a plain Python for a bento.
        out_dir: where the context's folder goes.
        api: which API of a bento answers /invocations; may be left out where there is one.
        progress: told the bytes that are written.

    Raises:
        PackagingError: with one line for every fault of the input.

    """
    if not _BASE.fullmatch(base):
        raise PackagingError(
            f"--base: got {base[:120]!r}; allowed REPOSITORY[:TAG]@sha256:DIGEST; "
            f"find the digest with `docker buildx imagetools inspect`"
        )
    out_dir.mkdir(parents=True, exist_ok=True)
    with _app(source, api=api, scratch=out_dir) as app:
        members = [
            Member("Dockerfile", dockerfile(app, base=base).encode()),
            *(Member(f"app/{member.path}", member.source) for member in app.members),
        ]
        if app.requirements:
            members.append(Member("requirements.txt", app.requirements.encode()))
        path = out_dir / f"{app.name}-{app.version}.context"
        return WrittenContext(path=path, app=app, written=write_prefix(members, path, progress=progress))


def dockerfile(app: ContainerApp, *, base: str) -> str:
    """Give the Dockerfile of an app whose names are checked, on a base by digest."""
    environment = {
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # a number has no home and no name, which torch and others ask for
        "HOME": "/tmp",  # noqa: S108 - in the image
        "LOGNAME": "app",
        **app.environment,
    }
    return _DOCKERFILE.format(
        server=app.server,
        name=app.name,
        version=app.version,
        base=base,
        environment=" ".join(f"{key}={value}" for key, value in environment.items()),
        install=_INSTALL if app.requirements else "",
        folder=app.folder,
        entry=app.entry,
    )


@contextmanager
def _app(source: Path, *, api: str | None, scratch: Path) -> Iterator[ContainerApp]:
    """Give the checked app; a `.mar` is unpacked for as long as its files are wanted."""
    if source.is_file() and source.suffix == ".mar":
        with tempfile.TemporaryDirectory(dir=scratch, prefix=f".{source.name}-") as temporary:
            unzip(source, Path(temporary))
            yield torchserve_app(Path(temporary), entry=_entry("torchserve.py"))
    elif (source / MANIFEST).is_file():
        yield torchserve_app(source, entry=_entry("torchserve.py"))
    elif (source / BENTO).is_file():
        yield bento_app(source, api=api, entry=_entry("bentoml_service.py"))
    else:
        raise PackagingError(
            f"{source}: got neither; allowed a TorchServe archive (.mar, or a folder with {MANIFEST}) or a built bento "
            f"(a folder with {BENTO}, as below ~/bentoml/bentos); name one"
        )


def _entry(name: str) -> bytes:
    return files("model_packaging.in_container").joinpath(name).read_bytes()

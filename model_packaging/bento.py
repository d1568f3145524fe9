"""A built bento, checked: what `bento.yaml` says, the service's source, its files; nothing of it is run.

Source: BentoML 1.4, *Bento* and bentoml/_internal/bento/bento.py (the fields of bento.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from model_packaging.archive import Member
from model_packaging.container_app import ContainerApp, content_problems, plain_names
from model_packaging.foreign_yaml import read_yaml
from model_packaging.requirements import requirement_problems
from serving.errors import PackagingError

BENTO = "bento.yaml"

_REQUIREMENTS = ("env/python/requirements.lock.txt", "env/python/requirements.txt")
_OWN_INDEX = "--index-url https://pypi.org/simple"
"""What `bentoml build` writes above its lock; pip's own configuration chooses the index instead."""

_NOT_CARRIED = {
    "models": "none; put weights into the folder of the service (`include`), BentoML's store is not in the image",
    "envs": "none; set them in the container definition or in the base image",
    "args": "none; build the bento with them as defaults",
}
_COMMANDS = ("commands", "post_commands")
_OWN_COMMAND = re.compile(
    r"apt-get update && apt-get install -q -y --no-install-recommends --allow-remove-essential "
    r"ca-certificates gnupg2 bash build-essential(?: git)?"
)
"""The one command of every bento: tools to build packages with."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SERVICE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
_ROUTE = re.compile(r"/[A-Za-z0-9_./~-]{1,200}")
_MAX_BENTO_BYTES = 1 << 20


def bento_app(folder: Path, *, api: str | None, entry: bytes) -> ContainerApp:
    """Check a bento's folder and give what serves it.

    Args:
        folder: has bento.yaml, src/ and env/python/.
        api: which API answers /invocations; may be left out where there is one.
        entry: the source of what the container starts.

    Raises:
        PackagingError: with one line for everything that the container would lack, and for every file at fault.

    """
    document = _document(folder / BENTO)
    names = [f"src/{name}" for name in plain_names(folder / "src")]
    routes = _routes(document)
    listed = next((name for name in _REQUIREMENTS if (folder / name).is_file()), None)
    problems = [*_document_problems(document, names), *_route_problems(routes, api), *content_problems(folder, names)]
    text = _pins((folder / listed).read_text(encoding="utf-8", errors="replace")) if listed else ""
    if not any(line.startswith("bentoml==") for line in text.splitlines()):
        problems.append(f"{_REQUIREMENTS[1]}: got no bentoml==…; allowed a lock with all; build it with lock_packages")
    problems += requirement_problems(text, listed or _REQUIREMENTS[1], hashed=False)
    if problems:
        raise PackagingError("\n".join(problems))
    route = routes[api] if api is not None else next(iter(routes.values()))
    served = {"service": document["service"], "invocations": route}
    own = [Member("service.json", orjson.dumps(served)), Member("bentoml_service.py", entry)]
    return ContainerApp(
        server="bentoml",
        name=str(document["name"]),
        version=str(document["version"]),
        invocations=route,
        entry="bentoml_service.py",
        members=(*own, *(Member(name, folder / name) for name in names)),
        folder="src",
        requirements=text,
        environment={
            "PYTHONPATH": "/opt/app",
            "BENTOML_HOME": "/tmp/bentoml",  # noqa: S108 - in the image; the rest of it is read only
            "BENTOML_DO_NOT_TRACK": "True",
        },
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        document = read_yaml(path, max_bytes=_MAX_BENTO_BYTES)
    except (OSError, ValueError) as error:
        raise PackagingError(
            f"{BENTO}: got no readable file ({error}); allowed a folder `bentoml build` wrote"
        ) from None
    if not isinstance(document, dict):
        raise PackagingError(f"{BENTO}: got no mapping; allowed a folder `bentoml build` wrote; build it again")
    return document


def _document_problems(document: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    for key in ("name", "version"):
        if not (isinstance(value := document.get(key), str) and _NAME.fullmatch(value)):
            yield f"{BENTO}: {key}: got {str(value)[:60]!r}; allowed letters, digits, dots, dashes; build it so"
    service = _SERVICE.fullmatch(str(document.get("service")))
    path = f"src/{service[1].replace('.', '/')}" if service else ""
    if not {f"{path}.py", f"{path}/__init__.py"} & set(names):
        yield (
            f"{BENTO}: service: got {str(document.get('service'))[:60]!r}; allowed MODULE:NAME with its module "
            f"in src/; build the bento from such a name"
        )
    if (count := len(_list(document.get("services")))) != 1:
        yield f"{BENTO}: services: got {count}; allowed 1, built by BentoML 1.2 or later; serve others by themselves"
    for key, allowed in _NOT_CARRIED.items():
        if document.get(key):
            yield f"{BENTO}: {key}: got {str(document[key])[:60]!r}; allowed {allowed}"
    image = document.get("image")
    for key in _COMMANDS:
        for command in _list(image.get(key) if isinstance(image, dict) else None):
            if not _OWN_COMMAND.fullmatch(str(command)):
                yield f"{BENTO}: image.{key}: got {str(command)[:60]!r}; allowed none; run it in the base image"


def _routes(document: Mapping[str, Any]) -> dict[str, str]:
    schema = document.get("schema")
    entries = _list(schema.get("routes") if isinstance(schema, dict) else None)
    return {str(entry.get("name")): str(entry.get("route")) for entry in entries if isinstance(entry, dict)}


def _route_problems(routes: Mapping[str, str], api: str | None) -> Iterator[str]:
    have = ", ".join(sorted(routes)) or "none"
    if api is None and len(routes) != 1:
        yield f"{BENTO}: schema.routes: got {have}; allowed one API; say with --api which answers /invocations"
    if api is not None and api not in routes:
        yield f"--api: got {api!r}; allowed {have}; name one of the service"
    for name, route in routes.items():
        if not _ROUTE.fullmatch(route):
            yield f"{BENTO}: schema.routes: {name[:60]}: got {route[:60]!r}; allowed a plain path; rename the route"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _pins(text: str) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if line.strip() not in ("", _OWN_INDEX))

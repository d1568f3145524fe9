"""A TorchServe model archive, checked: its manifest, its handler's source, its files; nothing of it is run.

Sources: pytorch/serve 0.12.0, model-archiver (the manifest's fields), ModelArchive.java and ModelManager.java (what the
server refuses), ts/model_loader.py (how a handler is found). TorchServe gets no more fixes (its README).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from model_packaging.archive import Member
from model_packaging.container_app import ContainerApp, content_problems, plain_names
from model_packaging.python_source import defined_functions
from model_packaging.requirements import requirement_problems
from serving.errors import PackagingError

MANIFEST = "MAR-INF/MANIFEST.json"

_HANDLERS = ("base_handler", "image_classifier", "image_segmenter", "object_detector", "text_classifier")
"""Handlers of TorchServe's own (ts/torch_handler) that need nothing beyond the archive."""

_RUNTIMES = ("python", "python3")
_FILES = ("serializedFile", "modelFile", "requirementsFile", "configFile")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_MAX_MANIFEST_BYTES = 1 << 20

_CONFIG = """\
load_models={name}
disable_token_authorization=true
enable_envvars_config=true
default_response_timeout=60
max_request_size=26214400
max_response_size=26214400
"""
"""No token: SageMaker sends none, IAM says who may ask. 60 s and 25 MB are SageMaker's own limits of a request."""


def torchserve_app(folder: Path, *, entry: bytes) -> ContainerApp:
    """Check an unpacked archive (or what `--archive-format no-archive` writes) and give what serves it.

    Args:
        folder: has MAR-INF/MANIFEST.json and the model's files.
        entry: the source of what the container starts.

    Raises:
        PackagingError: with one line for every fault of the manifest and of every file.

    """
    names = plain_names(folder)
    manifest = _manifest(folder)
    model = manifest.get("model")
    fields: Mapping[str, Any] = model if isinstance(model, dict) else {}
    problems = [*_manifest_problems(manifest, fields, names), *_handler_problems(folder, fields, names)]
    problems += content_problems(folder, names)
    listed = fields.get("requirementsFile")
    text = _text(folder / listed) if isinstance(listed, str) and listed in names else None
    if text is not None:
        problems += requirement_problems(text, str(listed), hashed=False)
    if problems:
        raise PackagingError("\n".join(problems))
    name = str(fields["modelName"])
    own = [Member("config.properties", _CONFIG.format(name=name).encode()), Member("serve.py", entry)]
    return ContainerApp(
        server="torchserve",
        name=name,
        version=str(fields["modelVersion"]),
        invocations=name,
        entry="serve.py",
        members=(*own, *(Member(f"models/{name}/{each}", folder / each) for each in names)),
        requirements=text,
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            document = orjson.loads(file.read(_MAX_MANIFEST_BYTES))
    except (OSError, ValueError) as error:
        raise PackagingError(
            f"{MANIFEST}: got no readable manifest ({error}); allowed what torch-model-archiver writes; make it again"
        ) from None
    if not isinstance(document, dict):
        raise PackagingError(f"{MANIFEST}: got no object; allowed what torch-model-archiver writes; make it again")
    return document


def _manifest_problems(manifest: Mapping[str, Any], model: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    def problem(key: str, got: object, allowed: str) -> str:
        return f"{MANIFEST}: {key}: got {str(got)[:60]!r}; allowed {allowed}; make the archive again"

    if (runtime := manifest.get("runtime")) not in _RUNTIMES:
        yield problem("runtime", runtime, " or ".join(_RUNTIMES))
    for key in ("modelName", "modelVersion"):
        if not (isinstance(value := model.get(key), str) and _NAME.fullmatch(value)):
            yield problem(f"model.{key}", value, "letters, digits, dots, dashes and underscores, at most 128")
    for key in _FILES:
        value = model.get(key)
        if value is not None and (not isinstance(value, str) or "/" in value or value not in names):
            yield problem(f"model.{key}", value, "the name of a file at the archive's top")


def _handler_problems(folder: Path, model: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    """`NAME`, `NAME.py` or either with `:function`: a file at the top goes before TorchServe's own of that name."""
    handler = model.get("handler")
    module, _, function = handler.partition(":") if isinstance(handler, str) else ("", "", "")
    source = f"{module.removesuffix('.py')}.py"
    if source in names:
        found = defined_functions(folder / source)
        if function and found is not None and function not in found:
            yield f"{source}: got no function {function[:60]!r}, which model.handler names; define it"
    elif handler not in _HANDLERS:
        yield (
            f"{MANIFEST}: model.handler: got {str(handler)[:60]!r}; allowed a Python file at the archive's top or "
            f"one of {', '.join(_HANDLERS)}; make the archive again"
        )
    elif not model.get("serializedFile"):
        yield f"{MANIFEST}: model.serializedFile: got none; allowed the weights that {handler} loads; add them"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() and not path.is_symlink() else ""

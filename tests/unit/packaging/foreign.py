"""A TorchServe archive and a bento small enough to read, as their own tools write them."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import yaml

BASE = "registry.example/base:1@sha256:" + "0f" * 32

# torch-model-archiver 0.12.0, `--model-name adder --version 1.0 --handler handler.py --serialized-file model.json`
MANIFEST: dict[str, Any] = {
    "createdOn": "28/07/2026 06:32:08",
    "runtime": "python",
    "model": {"modelName": "adder", "serializedFile": "model.json", "handler": "handler.py", "modelVersion": "1.0"},
    "archiverVersion": "0.12.0",
}

HANDLER = """\
import json


class Adder:
    def initialize(self, context):
        with open(context.system_properties["model_dir"] + "/model.json") as file:
            self.bias = json.load(file)["bias"]

    def handle(self, data, context):
        return [[value + self.bias for value in row["body"]["values"]] for row in data]
"""

SERVICE = """\
import json
import pathlib

import bentoml


@bentoml.service
class Adder:
    def __init__(self) -> None:
        self.bias = json.loads((pathlib.Path(__file__).parent / "model.json").read_text())["bias"]

    @bentoml.api(route="/v1/add")
    def add(self, values: list[float]) -> list[float]:
        return [value + self.bias for value in values]
"""

# what `bentoml build` of BentoML 1.4.40 writes, without what nobody reads
BENTO: dict[str, Any] = {
    "service": "service:Adder",
    "name": "adder",
    "version": "ae6p7bho2sihcax4",
    "bentoml_version": "1.4.40",
    "models": [],
    "entry_service": "Adder",
    "services": [{"name": "Adder", "service": "", "models": [], "dependencies": [], "config": {}}],
    "envs": [],
    "schema": {"name": "Adder", "type": "service", "routes": [{"name": "add", "route": "/v1/add"}]},
    "args": {},
    "spec": 2,
    "image": {
        "base_image": "python:3.11-slim",
        "python_version": "3.11",
        "commands": [
            (
                "apt-get update && apt-get install -q -y --no-install-recommends --allow-remove-essential "
                "ca-certificates gnupg2 bash build-essential git"
            )
        ],
        "post_commands": [],
    },
}

PINS = "--index-url https://pypi.org/simple\n\nbentoml==1.4.40\nnumpy==2.4.6\n"


def changed(document: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    """Give a copy with the value of a dotted key replaced, or with None taken out."""
    made = copy.deepcopy(document)
    *parents, last = key.split(".")
    place = made
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


def torchserve_files(manifest: object = MANIFEST) -> dict[str, bytes]:
    return {
        "MAR-INF/MANIFEST.json": json.dumps(manifest).encode(),
        "handler.py": HANDLER.encode(),
        "model.json": b'{"bias": 1.5}',
    }


def bento_files(document: object = BENTO, pins: str = PINS) -> dict[str, bytes]:
    return {
        "bento.yaml": yaml.safe_dump(document).encode(),
        "src/service.py": SERVICE.encode(),
        "src/model.json": b'{"bias": 1.5}',
        "env/python/requirements.txt": pins.encode(),
        "env/docker/Dockerfile": b"FROM python:3.11-slim\n",
    }


def write_folder(files: dict[str, bytes], folder: Path) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()

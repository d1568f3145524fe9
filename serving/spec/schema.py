"""The JSON Schemas of `model.toml` and stage files, generated from the types: `make schemas` writes `schemas/`.

Editors complete and check the TOML with them (each file's first line may name its schema). pydantic, which knows
dataclasses, does the work; it is a development dependency and nothing at run time imports this module.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
from pydantic import TypeAdapter

from serving.spec.model import ModelSpec
from serving.spec.stage import StageSpec


def schema_of(cls: type) -> bytes:
    """Give a type's JSON Schema (draft 2020-12): unknown keys refused, descriptions from the docstrings."""
    schema = TypeAdapter(cls).json_schema()
    for table in (schema, *schema.get("$defs", {}).values()):
        if table.get("type") == "object":
            table["additionalProperties"] = False
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


SCHEMAS = {"model.schema.json": ModelSpec, "stage.schema.json": StageSpec}


def write(folder: Path) -> None:
    """Write every schema into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, cls in SCHEMAS.items():
        (folder / name).write_bytes(schema_of(cls))


if __name__ == "__main__":
    write(Path(sys.argv[1]))

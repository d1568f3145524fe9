"""What the SageMaker service remembers: models, configs, endpoints and tags as AWS describes them, in one file."""

from __future__ import annotations

from pathlib import Path

import orjson

from local.aws_json import Json, ValidationError
from local.settings import LocalSettings
from serving.errors import LocalStackError

FORMAT = 1
_FILE = "sagemaker.json"


class Store:
    """The documents, by kind and name; `save` writes them atomically after each change."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._path = settings.state_dir / _FILE
        self.models: dict[str, Json] = {}
        self.configs: dict[str, Json] = {}
        self.endpoints: dict[str, Json] = {}
        self.tags: dict[str, list[Json]] = {}
        # by endpoint: the config and models that serve it, and those it moves to; copies, since both may be deleted
        self.deployed: dict[str, Json] = {}
        self.pending: dict[str, Json] = {}
        self._load()

    def arn(self, kind: str, name: str) -> str:
        """Give the resource name of a model, endpoint-config or endpoint."""
        return f"arn:aws:sagemaker:{self._settings.region}:{self._settings.account}:{kind}/{name}"

    def model(self, name: str) -> Json:
        """Give a model, or fail as AWS does."""
        return self._found(self.models, "model", "model", name)

    def config(self, name: str) -> Json:
        """Give an endpoint config, or fail as AWS does."""
        return self._found(self.configs, "endpoint configuration", "endpoint-config", name)

    def endpoint(self, name: str) -> Json:
        """Give an endpoint, or fail as AWS does."""
        return self._found(self.endpoints, "endpoint", "endpoint", name)

    def refuse_existing(self, documents: dict[str, Json], *, called: str, kind: str, name: str) -> None:
        """Raise if the name is taken."""
        if name in documents:
            raise ValidationError(f'Cannot create already existing {called} "{self.arn(kind, name)}".')

    def save(self) -> None:
        """Write everything, so that a reader sees the old or the new state, never half of one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".tmp")
        scratch.write_bytes(orjson.dumps({"format": FORMAT, **{name: getattr(self, name) for name in _PARTS}}))
        scratch.replace(self._path)

    def _found(self, documents: dict[str, Json], called: str, kind: str, name: str) -> Json:
        document = documents.get(name)
        if document is None:
            raise ValidationError(f'Could not find {called} "{self.arn(kind, name)}".')
        return document

    def _load(self) -> None:
        if not self._path.exists():
            return
        state = _read(self._path)
        for name in _PARTS:
            setattr(self, name, state[name])


_PARTS = ("models", "configs", "endpoints", "tags", "deployed", "pending")


def _read(path: Path) -> Json:
    try:
        state = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise LocalStackError(f"{path}: not JSON ({error}); delete the file to start anew") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT or not set(_PARTS) <= set(state):
        raise LocalStackError(f"{path}: not a state of format {FORMAT}; delete the file to start anew")
    return state

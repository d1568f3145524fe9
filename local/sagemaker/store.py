"""What the SageMaker service remembers: models, configs, endpoints and tags as AWS describes them, in one file."""

from __future__ import annotations

from local.aws_json import Json, ValidationError
from local.settings import LocalSettings
from local.state_file import StateFile

_FILE = "sagemaker.json"
_PARTS = ("models", "configs", "endpoints", "tags", "deployed", "pending")


class Store:
    """The documents, by kind and name; `save` writes them after each change."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._file = StateFile(settings.state_dir / _FILE, _PARTS)
        state = self._file.read()
        self.models: dict[str, Json] = state["models"]
        self.configs: dict[str, Json] = state["configs"]
        self.endpoints: dict[str, Json] = state["endpoints"]
        self.tags: dict[str, list[Json]] = state["tags"]
        # by endpoint: the config and models that serve it, and those it moves to; copies, since both may be deleted
        self.deployed: dict[str, Json] = state["deployed"]
        self.pending: dict[str, Json] = state["pending"]

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
        """Write everything."""
        self._file.write({name: getattr(self, name) for name in _PARTS})

    def _found(self, documents: dict[str, Json], called: str, kind: str, name: str) -> Json:
        document = documents.get(name)
        if document is None:
            raise ValidationError(f'Could not find {called} "{self.arn(kind, name)}".')
        return document

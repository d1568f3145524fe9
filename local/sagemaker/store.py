"""What the SageMaker service remembers: models, configs, endpoints, components and tags, in one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from local.aws_json import Json, ValidationError
from local.sagemaker.endpoint import Endpoint, endpoint_of_document
from local.settings import LocalSettings
from local.state_file import StateFile

T = TypeVar("T")
_FILE = "sagemaker.json"
_PARTS = ("models", "configs", "endpoints", "tags", "deployments", "policies", "components")


class Store:
    """The documents, by kind and name; `save` writes them after each change."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._file = StateFile(settings.state_dir / _FILE, _PARTS)
        state = self._file.read()
        self.models: dict[str, Json] = state["models"]
        self.configs: dict[str, Json] = state["configs"]
        self.tags: dict[str, list[Json]] = state["tags"]
        self.endpoints: dict[str, Endpoint] = {
            name: endpoint_of_document(document) for name, document in state["endpoints"].items()
        }
        # by endpoint and number of the fleet: what it serves; copies, since config and models may be deleted
        self.deployments: dict[str, dict[int, Json]] = {
            name: {int(number): deployment for number, deployment in held.items()}
            for name, held in state["deployments"].items()
        }
        # by endpoint: the DeploymentConfig of its last deployment
        self.policies: dict[str, Json] = state["policies"]
        self.components: dict[str, Json] = state["components"]

    def arn(self, kind: str, name: str) -> str:
        """Give the resource name of a model, endpoint-config, endpoint or inference-component."""
        return f"arn:aws:sagemaker:{self._settings.region}:{self._settings.account}:{kind}/{name}"

    def model(self, name: str) -> Json:
        """Give a model, or fail as AWS does."""
        return self._found(self.models, "model", "model", name)

    def config(self, name: str) -> Json:
        """Give an endpoint config, or fail as AWS does."""
        return self._found(self.configs, "endpoint configuration", "endpoint-config", name)

    def endpoint(self, name: str) -> Endpoint:
        """Give an endpoint, or fail as AWS does."""
        return self._found(self.endpoints, "endpoint", "endpoint", name)

    def created(self, endpoint: str) -> float | None:
        """Give when an endpoint was made, None if there is none of that name."""
        found = self.endpoints.get(endpoint)
        return found.created if found is not None else None

    def component(self, name: str) -> Json:
        """Give an inference component, or fail as AWS does."""
        return self._found(self.components, "inference component", "inference-component", name)

    def refuse_existing(self, documents: Mapping[str, object], *, called: str, kind: str, name: str) -> None:
        """Raise if the name is taken."""
        if name in documents:
            raise ValidationError(f'Cannot create already existing {called} "{self.arn(kind, name)}".')

    def save(self) -> None:
        """Write everything."""
        kept = {name: getattr(self, name) for name in _PARTS if name != "deployments"}
        deployments = {
            name: {str(number): deployment for number, deployment in held.items()}
            for name, held in self.deployments.items()
        }
        self._file.write({**kept, "deployments": deployments})

    def _found(self, documents: dict[str, T], called: str, kind: str, name: str) -> T:
        document = documents.get(name)
        if document is None:
            raise ValidationError(f'Could not find {called} "{self.arn(kind, name)}".')
        return document

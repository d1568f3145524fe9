"""What ministack holds in memory, out of it as JSON and back.

Its own persistence is not used: it writes service by service and only at a clean end, so that a crash mixes moments;
it goes on without a service whose file is broken; and it forgets retention and legal holds of S3 objects and uploads
in parts (1.5.33). Each service's own `get_state` and `load_persisted_state` are, and its encoding of keys.
"""

# ruff: noqa: SLF001 - private hooks are what this module and ministack_adapter are for

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from local.snapshot import WAY_OUT, digest_of
from serving.errors import LocalStackError

_APP = "ministack.app"
_PERSISTENCE = "ministack.core.persistence"
_S3 = "ministack.services.s3"
_LAMBDA = "ministack.services.lambda_svc"
_CLOUDFORMATION = "ministack.services.cloudformation"
_S3_STORES = (
    "_buckets",
    "_object_versions",
    "_object_tags",
    "_object_acl",
    "_object_annotations",
    "_object_retention",
    "_object_legal_hold",
    "_multipart_uploads",
    "_completed_multipart_uploads",
)

HOOKS: dict[str, tuple[str, ...]] = {
    _APP: ("_build_persistence_save_dict", "_state_map", "_get_module"),
    _PERSISTENCE: ("_json_default", "_json_object_hook"),
    _S3: _S3_STORES,
    _LAMBDA: ("_externalize_code_zip",),
    _CLOUDFORMATION: ("_stacks",),
}
"""Every name of ministack that this module touches."""

_OBJECTS = "s3-objects"
_BLOB = "__blob__"
_STABLE = "REVIEW_IN_PROGRESS"  # a change set that nobody executes yet


class Memory:
    """The services of the ministack of this process."""

    def __init__(self) -> None:
        # code goes into the snapshot with everything else, not into a folder of ministack's own
        _module(_LAMBDA)._externalize_code_zip = lambda _function, _referenced: None
        # by identity: the digest of bytes that are still held, so that none is hashed twice
        self._digests: dict[int, tuple[bytes, str]] = {}

    def changes(self) -> bool:
        """Say whether a CloudFormation stack is being changed; such a moment cannot be continued from."""
        return any(
            stack["StackStatus"].endswith("_IN_PROGRESS") and stack["StackStatus"] != _STABLE
            for stack in _module(_CLOUDFORMATION)._stacks._data.values()
        )

    def capture(self) -> tuple[dict[str, str], dict[str, bytes]]:
        """Give one JSON document a service, and the byte strings that they name by digest.

        To be called where requests are answered: nothing is served meanwhile, so all of it is of one moment.
        """
        held: dict[int, tuple[bytes, str]] = {}
        blobs: dict[str, bytes] = {}
        plain = _module(_PERSISTENCE)._json_default

        def default(value: object) -> object:
            if not isinstance(value, bytes):
                return plain(value)
            known = self._digests.get(id(value)) or (value, digest_of(value))
            held[id(value)] = known
            blobs[known[1]] = value
            return {_BLOB: known[1]}

        states = {name: state() for name, state in _module(_APP)._build_persistence_save_dict().items()}
        states[_OBJECTS] = {name: getattr(_module(_S3), name) for name in _S3_STORES}
        documents = {name: json.dumps(state, default=default) for name, state in states.items() if state is not None}
        self._digests = held
        return documents, blobs

    def restore(self, documents: Mapping[str, str], blobs: Mapping[str, bytes]) -> None:
        """Put a captured moment into services that hold nothing yet.

        Raises:
            LocalStackError: a service does not take it.

        """
        modules = _module(_APP)._state_map
        for name, text in documents.items():
            try:
                state = json.loads(text, object_hook=_decoder(blobs))
                if name == _OBJECTS:
                    _restore_objects(state)
                else:
                    _module(_APP)._get_module(modules[name]).load_persisted_state(state)
            except Exception as error:  # ministack's services raise whatever broken state leads to
                raise LocalStackError(f"kept state of {name}: cannot be brought back ({error!r}); {WAY_OUT}") from error


def _restore_objects(state: Mapping[str, Any]) -> None:
    for name in _S3_STORES:
        getattr(_module(_S3), name)._data.update(state[name]._data)
    for upload in _module(_S3)._multipart_uploads._data.values():
        upload["parts"] = {int(number): part for number, part in upload["parts"].items()}  # JSON's keys are text


def _decoder(blobs: Mapping[str, bytes]) -> Callable[[dict[str, Any]], Any]:
    plain = _module(_PERSISTENCE)._json_object_hook

    def decode(value: dict[str, Any]) -> Any:  # noqa: ANN401 - what was encoded
        return blobs[value[_BLOB]] if _BLOB in value else plain(value)

    return decode


def _module(name: str) -> Any:  # noqa: ANN401 - ministack has no types
    return import_module(name)

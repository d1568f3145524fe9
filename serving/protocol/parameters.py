"""What the `parameters` of a request and of its outputs ask for, in the words of Triton's protocol extensions.

Of those, only binary tensors and the time limit of the schedule policy exist here; what would change the answer
(sequences, classification, shared memory) is refused, and what would not (`priority`, custom parameters) is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from serving.errors import InvalidRequestError

_SEQUENCES = ("sequence_id", "sequence_start", "sequence_end")
_SHARED_MEMORY = "shared_memory_region"
_MAX_TIMEOUT_US = 1 << 62
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Wanted:
    """The outputs that a request names (none: all) and those of them that are to be raw bytes."""

    names: tuple[str, ...]
    binary: frozenset[str]
    all_binary: bool


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a whole request asks for; `timeout_us` 0 is none."""

    binary_output: bool
    timeout_us: int
    stream: bool


def of_request(entry: dict[str, Any]) -> Parameters:
    """Read the parameters of a request.

    Raises:
        InvalidRequestError: a sequence, or a value of another type than Triton takes.

    """
    parameters = table(entry, "request")
    if not parameters:
        return _PLAIN
    if asked := [name for name in _SEQUENCES if parameters.get(name)]:
        raise InvalidRequestError(
            f"parameters: {asked[0]}: got {short(parameters[asked[0]])}; allowed none: models here keep no state "
            f"between requests; leave it out"
        )
    timeout = parameters.get("timeout", 0)
    if type(timeout) is not int or not 0 <= timeout <= _MAX_TIMEOUT_US:
        raise InvalidRequestError(
            f"parameters: timeout: got {short(timeout)}; allowed a whole number of microseconds from 0; leave it out "
            f"for the model's own limit"
        )
    return Parameters(_flag(parameters, "binary_data_output"), timeout, _flag(parameters, "stream"))


_PLAIN = Parameters(binary_output=False, timeout_us=0, stream=False)


def of_outputs(entries: list[dict[str, Any]], names: tuple[str, ...], *, default: bool) -> Wanted:
    """Read what each named output is to be; `default` is `binary_data_output` of the request.

    Raises:
        InvalidRequestError: an extension that is not here, or a `binary_data` that is no truth value.

    """
    binary = set()
    for name, entry in zip(names, entries, strict=True):
        parameters = table(entry, f"output {name!r}")
        refuse_shared_memory(parameters, f"output {name!r}")
        if parameters.get("classification", 0) != 0:
            raise InvalidRequestError(
                f"output {name!r}: classification: got {short(parameters['classification'])}; allowed none: outputs "
                f"are given as the model gives them; leave it out and sort them yourself"
            )
        if _flag(parameters, "binary_data", default=default):
            binary.add(name)
    return Wanted(names, frozenset(binary), len(binary) == len(set(names)) if names else default)


def refuse_shared_memory(parameters: dict[str, Any], what: str) -> None:
    """Refuse a tensor that lies elsewhere than in the body.

    Raises:
        InvalidRequestError: it names a region of shared memory.

    """
    if _SHARED_MEMORY in parameters:
        raise InvalidRequestError(
            f"{what}: {_SHARED_MEMORY}: got {short(parameters[_SHARED_MEMORY])}; allowed tensors in the body: "
            f"this server maps no shared memory; send data or raw bytes"
        )


def table(entry: dict[str, Any], what: str) -> dict[str, Any]:
    """Give the parameters of one object; none are empty.

    Raises:
        InvalidRequestError: they are no object.

    """
    value = entry.get("parameters")
    if value is None:
        return {}
    if type(value) is dict:
        return value
    raise InvalidRequestError(f"{what}: parameters: got {short(value)}; allowed an object; leave it out or fix it")


def _flag(parameters: dict[str, Any], name: str, *, default: bool = False) -> bool:
    value = parameters.get(name, default)
    if type(value) is bool:
        return value
    raise InvalidRequestError(f"parameters: {name}: got {short(value)}; allowed true or false; leave it out or fix it")


def short(value: object) -> str:
    """Show a value of a request in an error, or as much of it as a line has place for."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."

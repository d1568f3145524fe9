"""A folder's `config.pbtxt` against what `streamhub.json` says of its model, and against the files beside it.

What decides whether the model loads and what it answers must be the same; queues, instances and warm-up may be tuned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.text_format import MessageToString
from tritonclient.grpc import model_config_pb2 as schema

from model_packaging.triton_config import from_text
from serving.errors import PackagingError

_SAME = ("name", "backend", "platform", "max_batch_size")
_LOOKED_INTO = frozenset({*_SAME, "input", "output", "batch_input", "ensemble_scheduling"})
_TUNED = frozenset({"instance_group", "dynamic_batching", "model_warmup"})
_TUNED_PARAMETERS = frozenset({"intra_op_thread_count", "inter_op_thread_count"})
_FIX = "package it again"


def config_problems(folder: Path, wanted: Any) -> Iterator[str]:  # noqa: ANN401 - generated messages have no types
    """Give every way in which a folder's configuration is not `wanted`, or is none that Triton would take."""
    try:
        found = from_text((folder / "config.pbtxt").read_bytes())
    except OSError as error:
        yield f"config.pbtxt: got no readable file ({error.strerror}); allowed a ModelConfig; {_FIX}"
        return
    except PackagingError as error:
        yield str(error)
        return
    for key in _SAME:
        if (got := getattr(found, key)) != (allowed := getattr(wanted, key)):
            yield f"config.pbtxt: {key}: got {_quoted(got)}; allowed {_quoted(allowed)} as in streamhub.json; {_FIX}"
    for key in ("input", "output", "batch_input"):
        yield from _tensor_problems(key, getattr(found, key), getattr(wanted, key))
    if found.ensemble_scheduling != wanted.ensemble_scheduling:
        yield f"config.pbtxt: ensemble_scheduling: got other steps or maps than in streamhub.json; {_FIX}"
    yield from _other_problems(found, wanted)
    yield from _device_problems(found, wanted)
    yield from _batching_problems(found)
    yield from _warmup_problems(folder, found)


def _quoted(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _tensor_problems(key: str, found: Any, wanted: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    got = {_name(tensor): tensor for tensor in found}
    allowed = {_name(tensor): tensor for tensor in wanted}
    if len(got) != len(found):
        yield f"config.pbtxt: {key}: got a name twice; allowed distinct names; {_FIX}"
    for name in sorted(got.keys() ^ allowed.keys()):
        yield f"config.pbtxt: {key} {name!r}: got {sorted(got)}; allowed {sorted(allowed)} as in streamhub.json; {_FIX}"
    for name in sorted(got.keys() & allowed.keys()):
        if got[name] == allowed[name]:
            continue
        for field in ("data_type", "dims", "reshape", "allow_ragged_batch", "kind", "source_input"):
            if field in got[name].DESCRIPTOR.fields_by_name:
                one, other = (_shown(tensor, field) for tensor in (got[name], allowed[name]))
                if one != other:
                    yield (
                        f"config.pbtxt: {key} {name!r}: {field}: got {one}; allowed {other} as in streamhub.json; "
                        f"{_FIX}"
                    )


def _name(tensor: Any) -> str:  # noqa: ANN401 - as above
    return ",".join(tensor.target_name) if isinstance(tensor, schema.BatchInput) else str(tensor.name)


def _shown(tensor: Any, field: str) -> str:  # noqa: ANN401 - as above
    value = getattr(tensor, field)
    descriptor = tensor.DESCRIPTOR.fields_by_name[field]
    if descriptor.enum_type is not None:
        number = descriptor.enum_type.values_by_number.get(value)
        return str(number.name if number is not None else value)
    if descriptor.message_type is not None:
        return MessageToString(value, as_one_line=True) or ("{}" if tensor.HasField(field) else "nothing")
    return str(list(value)) if descriptor.is_repeated else str(value)


def _device_problems(found: Any, wanted: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    kinds = schema.ModelInstanceGroup.Kind
    for group in found.instance_group:
        allowed = {each.kind for each in wanted.instance_group}
        if group.kind not in allowed:
            names = ", ".join(sorted(kinds.Name(kind) for kind in allowed)) or "none"
            yield f"config.pbtxt: instance_group: got {kinds.Name(group.kind)}; allowed {names}; {_FIX}"
        if group.count < 1:
            yield f"config.pbtxt: instance_group: got a count of {group.count}; allowed 1 or more; {_FIX}"


def _batching_problems(found: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Triton refuses a scheduler of batches for a model that takes none, and sizes above its largest."""
    if not found.HasField("dynamic_batching"):
        return
    if not found.max_batch_size:
        yield f"config.pbtxt: dynamic_batching: got it with max_batch_size 0; allowed with batches only; {_FIX}"
    for size in found.dynamic_batching.preferred_batch_size:
        if not 1 <= size <= found.max_batch_size:
            allowed = f"1 to max_batch_size = {found.max_batch_size}"
            yield f"config.pbtxt: preferred_batch_size: got {size}; allowed {allowed}; {_FIX}"


def _other_problems(found: Any, wanted: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Whatever else there is may load another file, a library or an agent, or convert the model once more."""
    for descriptor in found.DESCRIPTOR.fields:
        name = descriptor.name
        if name in _LOOKED_INTO | _TUNED:
            continue
        got, allowed = (_untuned(message, name) for message in (found, wanted))
        if got != allowed:
            yield f"config.pbtxt: {name}: got {got}; allowed {allowed}; {_FIX}"


def _untuned(config: Any, field: str) -> str:  # noqa: ANN401 - as above
    """Give one field as text, without what may be tuned in it."""
    alone = schema.ModelConfig()
    alone.CopyFrom(config)
    for descriptor, _ in config.ListFields():
        if descriptor.name != field:
            alone.ClearField(descriptor.name)
    for key in _TUNED_PARAMETERS & set(alone.parameters):
        del alone.parameters[key]
    return MessageToString(alone, as_one_line=True).strip() or "nothing"


def _warmup_problems(folder: Path, found: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Triton does not load a model whose warm-up it cannot read."""
    inputs = {tensor.name for tensor in found.input}
    for warmup in found.model_warmup:
        if set(warmup.inputs) != inputs:
            got = sorted(warmup.inputs)
            yield f"config.pbtxt: model_warmup {warmup.name!r}: got {got}; allowed {sorted(inputs)}; {_FIX}"
        for name, given in sorted(warmup.inputs.items()):
            if given.input_data_file and not (folder / "warmup" / given.input_data_file).is_file():
                yield f"warmup/{given.input_data_file}: got no such file for input {name!r}; allowed its bytes; {_FIX}"

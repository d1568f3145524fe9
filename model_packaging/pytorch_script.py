"""Script mode of the AWS PyTorch inference container: weights at the top, `code/inference.py` beside them.

The handlers are those of aws/sagemaker-inference-toolkit and sagemaker-pytorch-inference-toolkit; they are read from
the source, which is never imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from model_packaging.archive import Member
from model_packaging.pickle_scan import pickle_problems
from model_packaging.python_source import BYTECODE_SUFFIXES, defined_functions, positional_range, syntax_problems
from model_packaging.requirements import requirement_problems
from serving.errors import PackagingError
from serving.protocol.archive import SAMPLE
from serving.protocol.served import FILE_NAME, ServedModel

SCRIPT = "code/inference.py"
REQUIREMENTS = "code/requirements.txt"

# arguments of each handler, without the optional trailing `context`
_HANDLERS = {"model_fn": 1, "input_fn": 2, "predict_fn": 2, "output_fn": 2, "transform_fn": 4}
_OWN = frozenset({FILE_NAME, SAMPLE})
_WEIGHTS = (".pt", ".pth", ".pt2", ".safetensors", ".onnx")
_DEFAULT_LOADER = (".pt", ".pth")


def layout(served: ServedModel, *, folder: Path, sample: bytes | None) -> list[Member]:
    """Give the members of the archive: the folder's files at the top, `streamhub.json` beside them.

    Raises:
        PackagingError: with one line a file that the container would not take, all of them.

    """
    if not folder.is_dir():
        raise PackagingError(
            f"{folder}: got no folder; allowed weights beside {SCRIPT}; correct the path of the weights"
        )
    problems = [f"{folder.name}: {problem}" for problem in folder_problems(folder)]
    names = _names(folder)
    problems += [
        f"{folder.name}: {name}: got a name that packaging writes; rename it" for name in sorted(_OWN & set(names))
    ]
    if problems:
        raise PackagingError("\n".join(problems))
    members = [Member(name, folder / name) for name in names]
    members.append(Member(FILE_NAME, served.to_json()))
    if sample is not None:
        members.append(Member(SAMPLE, sample))
    return members


def folder_problems(folder: Path) -> Iterator[str]:
    """Give every reason why a folder, packaged or not yet, is not what the container can serve."""
    names = _names(folder)
    weights = [name for name in names if name.endswith(_WEIGHTS)]
    if not weights:
        yield f"got no weights; allowed {', '.join(_WEIGHTS)}; save them beside code/"
    for name in names:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            yield f"{name}: got a link or special file; allowed plain files; copy the folder with `cp -rL`"
        elif name.endswith(BYTECODE_SUFFIXES):
            yield f"{name}: got compiled or packed Python; allowed source below code/; leave it out"
        elif name.endswith(".py"):
            yield from syntax_problems(path, name)
            if not name.startswith("code/"):
                yield f"{name}: got source that the container does not import; allowed it below code/; move it there"
        else:
            yield from pickle_problems(path, name)
    yield from _script_problems(folder, names)
    if REQUIREMENTS in names:
        text = (folder / REQUIREMENTS).read_text(encoding="utf-8", errors="replace")
        yield from requirement_problems(text, REQUIREMENTS, hashed=True)


def _names(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if "__pycache__" not in name.split("/")]


def _script_problems(folder: Path, names: list[str]) -> Iterator[str]:
    if SCRIPT not in names:
        yield f"got no {SCRIPT}; allowed one with model_fn(model_dir); add it"
        return
    found = defined_functions(folder / SCRIPT)
    if found is None:
        return
    loadable = [name for name in names if "/" not in name and name.endswith(_DEFAULT_LOADER)]
    if "model_fn" not in found and len(loadable) != 1:
        yield (
            f"{SCRIPT}: got no model_fn and {len(loadable)} files *.pt at the top; allowed model_fn(model_dir), "
            f"or one TorchScript file for the default loader; define it"
        )
    split = sorted({"input_fn", "predict_fn", "output_fn"} & found.keys())
    if "transform_fn" in found and split:
        yield f"{SCRIPT}: got transform_fn beside {', '.join(split)}; allowed one or the others; remove transform_fn"
    for name, wanted in _HANDLERS.items():
        if name not in found:
            continue
        least, most = positional_range(found[name])
        if not (least <= wanted <= most or least <= wanted + 1 <= most):
            yield f"{SCRIPT}: {name}: got {least} to {most} arguments; allowed {wanted}, or one more for context"

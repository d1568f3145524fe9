"""Build the Lambda folders without Docker: `python -m lambdas.build --target aws|local [--out build/lambdas]`.

A folder holds the core, its function, the project's specs as JSON and, for AWS, the locked wheels of the function's
runtime. The same inputs give the same bytes, so that a deploy sees a change only where there is one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from serving.errors import PackagingError, StreamHubError
from serving.spec.bundle import SpecBundle
from serving.spec.load import load_project

Target = Literal["aws", "local"]

ROOT = Path(__file__).parent.parent
DEFAULT_OUT = Path("build/lambdas")

# infra/function.py deploys to this runtime, and to arm64.
PYTHON_VERSION = "3.12"
_PLATFORM = "aarch64-manylinux_2_28"

# What each function imports beyond the standard library and boto3, which the runtime brings.
_CORE = ("cattrs", "orjson")
REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "predict": (*_CORE, "numpy", "pillow", "valkey"),
    "release": _CORE,
    "drift": (*_CORE, "numpy"),
}
# Everything pyproject.toml names in its core dependencies and in the group `lambda`.
_NAMED = ("boto3", "cattrs", "numpy", "orjson", "packaging", "pillow", "rich", "typer", "tzdata", "valkey")

_NOT_DEPLOYED = ("runtime",)  # of serving: the model server is a container's
_UNUSED = ("tests", "__pycache__", "bin")
_EPOCH_S = 315_532_800  # 1980-01-01, the first moment a zip file can name


def locked_requirements(function: str, *, root: Path = ROOT) -> str:
    """Give the pinned and hashed requirements of one function, out of uv.lock, as pip takes them."""
    pruned = [name for name in _NAMED if name not in REQUIREMENTS[function]]
    return _run_uv(
        *("export", "--quiet", "--frozen", "--no-default-groups", "--group", "lambda", "--no-emit-project"),
        *("--no-header", "--no-annotate", *(word for name in pruned for word in ("--prune", name))),
        root=root,
    )


def build(*, target: Target, out: Path, root: Path = ROOT) -> Path:
    """Write `<out>/<function>/` for every function of the project and give `out`.

    For `local` a folder has no wheels: the emulated Lambda runs the interpreter that runs this, with its packages.

    Raises:
        SpecError: a spec or stage is wrong.
        PackagingError: a function has no source, or its wheels cannot be had.

    """
    specs = SpecBundle.of(load_project(root))
    out.mkdir(parents=True, exist_ok=True)
    for function in REQUIREMENTS:
        with tempfile.TemporaryDirectory(prefix=f".{function}-", dir=out) as scratch:
            folder = Path(scratch) / function
            folder.mkdir()
            if target == "aws":
                _install_wheels(function, folder, root=root)
                _strip(folder)
            _copy_sources(root, function, folder)
            specs.write(folder)
            _settle(folder)
            _replace(out / function, folder)
    return out


def _install_wheels(function: str, into: Path, *, root: Path) -> None:
    """Install the locked wheels of one function for the deployed runtime, each checked against its hash."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(locked_requirements(function, root=root), encoding="utf-8")
        _run_uv(
            *("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
            *("--python-version", PYTHON_VERSION, "--python-platform", _PLATFORM),
            *("--link-mode", "copy", "--target", str(into), "--requirement", str(requirements)),
            root=root,
        )


def _run_uv(*arguments: str, root: Path) -> str:
    uv = Path(sys.executable).parent / "uv"
    if not uv.is_file():
        raise PackagingError(f"uv: got no file {uv}; allowed: the uv of the environment; run make setup")
    done = subprocess.run([uv, *arguments], cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - the project's own uv with fixed arguments
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise PackagingError(
            f"wheels of the Lambda functions: uv {arguments[0]} gave exit {done.returncode} ({last[0]}); "
            "allowed 0; run uv lock if the lock is behind pyproject.toml, else look at the package index"
        )
    return done.stdout


def _copy_sources(root: Path, function: str, folder: Path) -> None:
    source = root / "lambdas" / function
    if not (source / "handler.py").is_file():
        raise PackagingError(
            f"function {function!r}: got no {source / 'handler.py'}; allowed: a package with handler.py; add it, "
            "or take the function out of lambdas/build.py"
        )
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "serving", folder / "serving", ignore=shutil.ignore_patterns("__pycache__", *_NOT_DEPLOYED))
    shutil.copytree(source, folder / "lambdas" / function, ignore=ignore)
    shutil.copyfile(root / "lambdas" / "__init__.py", folder / "lambdas" / "__init__.py")


def _strip(folder: Path) -> None:
    """Leave out what a function never runs, so that it starts sooner: tests, stubs, scripts, the installer's lock."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and path.name in _UNUSED:
            shutil.rmtree(path)
        elif path.is_file() and (path.suffix == ".pyi" or path.name == ".lock"):
            path.unlink()


def _settle(folder: Path) -> None:
    """Give every file the same time and mode, whoever builds and whenever."""
    for path in _all_below(folder):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (_EPOCH_S, _EPOCH_S))


def _all_below(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*"), reverse=True)
    yield folder


def _replace(place: Path, folder: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    folder.rename(place)


def main() -> None:
    """Build as the command line says; a refusal is one line and exit 1."""
    parser = argparse.ArgumentParser(description="Build the Lambda folders without Docker.")
    parser.add_argument("--target", choices=("aws", "local"), required=True, help="where the functions will run")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help=f"default {DEFAULT_OUT}")
    arguments = parser.parse_args()
    try:
        build(target=arguments.target, out=arguments.out)
    except StreamHubError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

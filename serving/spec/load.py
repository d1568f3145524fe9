"""Read specs, stages and locks from a project folder; every problem of every file at once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson
from cattrs import BaseValidationError

from serving.errors import ModelNotFoundError, Problem, SpecError
from serving.spec.codec import Failure, converter, failures
from serving.spec.manifest import LockedVersion
from serving.spec.model import ModelSpec
from serving.spec.refused import refusal
from serving.spec.rules import model_problems, model_warnings, stage_problems, stage_warnings
from serving.spec.stage import StageSpec

T = TypeVar("T")

MAX_SPEC_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project folder as values: models and stages by name, locks by model and version."""

    root: Path
    models: dict[str, ModelSpec]
    stages: dict[str, StageSpec]
    locks: dict[str, dict[str, LockedVersion]]

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What AWS takes and an operator should know: quotas that may be nought, or a peak that fits no fleet."""
        own = [found for name, model in self.models.items() for found in model_warnings(model, file=_model_file(name))]
        for name, stage in self.stages.items():
            own += stage_warnings(stage, self.models, self.locks, file=f"stages/{name}.toml")
        return tuple(own)

    def model(self, name: str) -> ModelSpec:
        """Give a model, or raise ModelNotFoundError naming those there are."""
        if name not in self.models:
            raise ModelNotFoundError(f"unknown model {name!r}; allowed: {', '.join(sorted(self.models))}")
        return self.models[name]

    def stage(self, name: str) -> StageSpec:
        """Give a stage, or raise ModelNotFoundError naming those there are."""
        if name not in self.stages:
            if not self.stages:
                raise ModelNotFoundError(
                    f"unknown stage {name!r}; there is no stages/*.toml in {self.root.resolve()}: "
                    f"write stages/{name}.toml (docs/specs.md), or run from the project root"
                )
            raise ModelNotFoundError(f"unknown stage {name!r}; allowed: {', '.join(sorted(self.stages))}")
        return self.stages[name]


def load_project(root: Path) -> Project:
    """Read `models/*/model.toml`, `models/*/model.lock.json` and `stages/*.toml`.

    Raises:
        SpecError: any file is missing, unreadable, mistyped or breaks a rule; it carries all problems.

    """
    problems: list[Problem] = []
    models = dict(_read_all(root, "models/*/model.toml", ModelSpec, problems))
    stages = dict(_read_all(root, "stages/*.toml", StageSpec, problems))
    locks = dict(_locks(root, models, problems))
    unread = {path.parent.name for path in root.glob("models/*/model.toml")} - models.keys()
    for name, model in models.items():
        problems += model_problems(model, file=f"models/{name}/model.toml", folder=name)
        problems += _missing_files(root, name, model)
    problems += _shared_routes(models)
    for name, stage in stages.items():
        problems += stage_problems(stage, models, locks, file=f"stages/{name}.toml", stem=name, unread=unread)
    if not models and not problems:
        problems.append(
            Problem(
                "models/", "*", "no model.toml", "at least one models/<name>/model.toml", "run from the project root"
            )
        )
    if problems:
        raise SpecError(tuple(problems))
    return Project(root=root, models=models, stages=stages, locks=locks)


def load_model(root: Path, name: str) -> ModelSpec:
    """Read one model alone: stages and locks may still be wrong, as they are before its first packaging.

    Raises:
        ModelNotFoundError: no such folder.
        SpecError: with every problem of this model.

    """
    file = f"models/{name}/model.toml"
    path = root / file
    known = sorted(found.parent.name for found in root.glob("models/*/model.toml"))
    if not known:
        raise ModelNotFoundError(
            f"unknown model {name!r}; there is no models/*/model.toml in {root.resolve()}: "
            f"write models/{name}/model.toml (docs/specs.md), or run from the project root"
        )
    if name not in known:
        raise ModelNotFoundError(f"unknown model {name!r}; allowed: {', '.join(known)}")
    model = parse(_text(path, file), ModelSpec, file=file)
    problems = [*model_problems(model, file=file, folder=name), *_missing_files(root, name, model)]
    if problems:
        raise SpecError(tuple(problems))
    return model


def load_stage(root: Path, name: str) -> StageSpec:
    """Read one stage of the project (the whole project is checked)."""
    return load_project(root).stage(name)


def parse(text: str, cls: type[T], *, file: str) -> T:
    """Turn TOML text into a frozen type.

    Raises:
        SpecError: with every wrong key of the text.

    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # tomllib lets Python's own limits of digits and depth through
        problem = Problem(file, "-", f"text that is not TOML ({error})", "TOML 1.0", "mend the syntax at that place")
        raise SpecError((problem,)) from error
    if unprintable := tuple(_unprintable(table, file=file)):
        raise SpecError(unprintable)
    return _structure(table, cls, file=file)


def _unprintable(value: object, *, file: str, key: str = "") -> Iterator[Problem]:
    """Say which texts hold control characters: they end up in names, paths, keys and log lines."""
    if isinstance(value, str):
        if not value.isprintable():
            yield Problem(file, key, repr(value), "text without control characters", "take them out")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _unprintable(name, file=file, key=key or "-")
            yield from _unprintable(inner, file=file, key=f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unprintable(inner, file=file, key=f"{key}[{index}]")


def _model_file(name: str) -> str:
    return f"models/{name}/model.toml"


def _structure(table: object, cls: type[T], *, file: str) -> T:
    try:
        return converter().structure(table, cls)
    except BaseValidationError as error:
        raise SpecError(tuple(_problem(file, row) for row in failures(error))) from error


def _problem(file: str, row: Failure) -> Problem:
    reason = refusal(row.key, row.got)
    if reason is None:
        return Problem(file, row.key, row.got, row.allowed, f"correct {row.key}")
    return Problem(file, row.key, row.got, row.allowed, reason.fix, reason.source)


def _read_all(root: Path, pattern: str, cls: type[T], problems: list[Problem]) -> Iterator[tuple[str, T]]:
    for path in sorted(root.glob(pattern)):
        name = path.parent.name if path.name == "model.toml" else path.stem
        file = path.relative_to(root).as_posix()
        try:
            yield name, parse(_text(path, file), cls, file=file)
        except SpecError as error:
            problems += error.problems


def _text(path: Path, file: str) -> str:
    try:
        if path.stat().st_size > MAX_SPEC_BYTES:
            raise SpecError((Problem(file, "-", "a huge file", f"at most {MAX_SPEC_BYTES} bytes", "shorten it"),))
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError((Problem(file, "-", str(error), "a readable UTF-8 file", "mend or remove it"),)) from error


def _locks(
    root: Path, models: Mapping[str, ModelSpec], problems: list[Problem]
) -> Iterator[tuple[str, dict[str, LockedVersion]]]:
    """Give the readable locks; a model without one has none locked, a broken one is a problem and is left out."""
    for name in models:
        file = f"models/{name}/model.lock.json"
        path = root / file
        try:
            table = orjson.loads(path.read_bytes()) if path.exists() else {}
            yield name, _structure(table, dict[str, LockedVersion], file=file)
        except (OSError, orjson.JSONDecodeError) as error:
            problems.append(Problem(file, "-", str(error), "readable JSON", f"run streamhub package {name} --lock"))
        except SpecError as error:
            problems += error.problems


def _shared_routes(models: Mapping[str, ModelSpec]) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for name, model in models.items():
        owner = owners.setdefault(model.api.route, name)
        if owner != name:
            allowed = f"a route of its own: {owner} has that one"
            yield Problem(f"models/{name}/model.toml", "api.route", repr(model.api.route), allowed, "name another")


def _missing_files(root: Path, name: str, model: ModelSpec) -> Iterator[Problem]:
    folder = root / "models" / name
    for version, files in model.versions.items():
        named = {"weights": files.weights, "metrics": files.metrics, "baseline": files.baseline}
        if (asked := files.quantisation) is not None:
            named |= {"quantisation.calibration": asked.calibration, "quantisation.evaluation": asked.evaluation}
        for key, value in named.items():
            place = f"versions.{version}.{key}"
            file = f"models/{name}/model.toml"
            if value and not (folder / value).resolve().is_relative_to(folder.resolve()):
                yield Problem(file, place, value, "a path inside the model's folder", "move the file there")
            elif value and not (folder / value).exists():
                yield Problem(file, place, value, "a file that exists", "run the model's train.py, or correct the path")

"""Specs and stages as two JSON files beside a function's code, or read from the project on a laptop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from serving.errors import ModelNotFoundError, Problem, SpecError
from serving.spec import codec
from serving.spec.model import ModelSpec
from serving.spec.stage import StageSpec

if TYPE_CHECKING:
    from serving.spec.load import Project

SPECS_FILE = "specs.json"
STAGES_FILE = "stages.json"
STAGE_NAME = "STREAMHUB_STAGE"
CODE_DIR = Path(__file__).resolve().parents[2]
"""Where a built function folder has its specs; on a laptop the project itself."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBundle:
    """Models and stages by name."""

    models: dict[str, ModelSpec]
    stages: dict[str, StageSpec]

    @classmethod
    def of(cls, project: Project) -> SpecBundle:
        """Take them from a project."""
        return cls(models=project.models, stages=project.stages)

    def stage(self, name: str) -> StageSpec:
        """Give a stage, or raise ModelNotFoundError naming those there are."""
        if name not in self.stages:
            raise ModelNotFoundError(
                f"STREAMHUB_STAGE: got {name!r}; allowed {', '.join(sorted(self.stages))}; name one of these"
            )
        return self.stages[name]

    def write(self, folder: Path) -> None:
        """Write both files; equal specs give equal bytes."""
        (folder / SPECS_FILE).write_bytes(codec.to_json(self.models))
        (folder / STAGES_FILE).write_bytes(codec.to_json(self.stages))


def read_bundle(folder: Path) -> SpecBundle:
    """Read what `SpecBundle.write` wrote.

    Raises:
        SpecError: a file is missing or is not what `write` writes.

    """
    return SpecBundle(
        models=_read(folder / SPECS_FILE, dict[str, ModelSpec]),
        stages=_read(folder / STAGES_FILE, dict[str, StageSpec]),
    )


def find_bundle(specs_dir: str | None, *, code_dir: Path, project_dir: Path) -> SpecBundle:
    """Read specs from where STREAMHUB_SPECS_DIR says; else beside the code; else from the project folder.

    Raises:
        SpecError: none of them holds specs, or they break rules.

    """
    if specs_dir:
        return read_bundle(Path(specs_dir))
    if (code_dir / SPECS_FILE).is_file():
        return read_bundle(code_dir)
    # on a laptop only: a function has its specs beside its code, and neither the rules nor the libraries they need
    from serving.spec.load import load_project  # noqa: PLC0415

    return SpecBundle.of(load_project(project_dir))


def specs_of_environment(environ: Mapping[str, str], *, needs: Sequence[str]) -> tuple[SpecBundle, StageSpec]:
    """Give the specs a function runs with and its stage: STREAMHUB_STAGE, and STREAMHUB_SPECS_DIR where it is set.

    Raises:
        SpecError: STREAMHUB_STAGE or some of `needs` are not set (all at once), or the specs cannot be read.
        ModelNotFoundError: the stage is unknown.

    """
    missing = [name for name in (STAGE_NAME, *needs) if not environ.get(name)]
    if missing:
        raise SpecError(tuple(Problem("environment", name, "nothing", "a value", f"set {name}") for name in missing))
    specs = find_bundle(environ.get("STREAMHUB_SPECS_DIR"), code_dir=CODE_DIR, project_dir=Path())
    return specs, specs.stage(environ[STAGE_NAME])


def _read(path: Path, cls: type[T]) -> T:
    try:
        return codec.from_json(path.read_bytes(), cls)
    except (OSError, ValueError) as error:
        problem = Problem(str(path), "-", str(error), "what SpecBundle.write writes", "run make lambdas")
        raise SpecError((problem,)) from error

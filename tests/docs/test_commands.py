"""The documents' commands exist; the README's quick ones run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from cli.main import COMMANDS, build

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(p.relative_to(ROOT) for p in ROOT.glob("docs/**/*.md"))]
QUICK = ("check", "package", "verify")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def code(text: str, *languages: str) -> list[str]:
    """Give the lines of fenced blocks in one of the languages, joined where they end in a backslash."""
    blocks = [body for language, body in FENCE.findall(text) if language in languages]
    return [line for body in blocks for line in body.replace("\\\n", " ").splitlines()]


def invocations(text: str) -> list[list[str]]:
    """Give every `streamhub …` and `make …` of a page: fenced shell lines and inline code."""
    inline = re.findall(r"`((?:streamhub|make) [^`\n]+)`", FENCE.sub("", text))
    lines = [line.strip() for line in [*code(text, "sh", "console"), *inline]]
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [found for found in words if found and found[0].rsplit("/", 1)[-1] in {"streamhub", "make"}]


def _unknown(group: TyperGroup, words: list[str]) -> list[str]:
    """Walk the command tree along the words, giving those that are no command and no option there."""
    command = group.commands.get(words[0]) if words else None
    if words and command is None and not words[0].startswith("-"):
        return [words[0]]
    if isinstance(command, TyperGroup):
        return _unknown(command, words[1:])
    parameters = command.params if command is not None else []
    options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in words[1:] if word.startswith("--") and word.split("=")[0] not in options | {"--help"}]


@pytest.fixture(scope="module", name="tree")
def tree_fixture() -> TyperGroup:
    """Give the whole command tree, as `streamhub --help` would show it."""
    group = typer.main.get_command(build(COMMANDS))
    assert isinstance(group, TyperGroup)
    return group


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    named = [words[1:] for words in invocations((ROOT / page).read_text(encoding="utf-8")) if words[0] == "make"]
    asked = {word for words in named for word in words if "=" not in word and not word.startswith("-")}
    assert asked - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_and_option_that_a_page_names_exists(page: Path, tree: TyperGroup) -> None:
    unknown = []
    for words in invocations((ROOT / page).read_text(encoding="utf-8")):
        if words[0].rsplit("/", 1)[-1] != "streamhub":
            continue
        unknown += [f"{word} in {' '.join(words)}" for word in _unknown(tree, words[1:])]
    assert unknown == []


def test_the_readme_lists_every_command_and_no_other() -> None:
    listed = re.findall(r"^\| `streamhub ([a-z]+)", README, flags=re.MULTILINE)
    assert sorted(set(listed)) == sorted(COMMANDS)


def test_no_recipe_uses_a_package_that_it_installs_itself() -> None:
    # make expands a whole recipe before its first line runs: $(NODE) would be looked up before `uv sync`
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = re.findall(r"^(?:\t.*\n)+", makefile, flags=re.MULTILINE)
    assert any("$(NODE" in recipe for recipe in recipes)
    assert [recipe for recipe in recipes if "$(UV) sync" in recipe and "$(NODE" in recipe] == []


def test_help_lists_the_readmes_commands(tree: TyperGroup) -> None:
    assert sorted(tree.commands) == sorted(COMMANDS)


def test_the_readmes_two_commands_come_first() -> None:
    assert [words for words in invocations(README) if words[0] == "make"][:2] == [["make", "demo"], ["make", "test"]]


def test_the_readmes_excerpts_of_specs_stand_in_the_files() -> None:
    excerpts = re.findall(r"^```toml\n# ([\w/.-]+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert [name for name, _ in excerpts] == ["models/recommendation_ranker/model.toml"]
    for name, excerpt in excerpts:
        text = (ROOT / name).read_text(encoding="utf-8")
        missing = [part for part in excerpt.strip().split("\n\n") if part.strip() not in text]
        assert missing == []


def test_the_readmes_quick_commands_run_one_after_the_other(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "models", tmp_path / "models")
    shutil.copytree(ROOT / "stages", tmp_path / "stages")
    streamhub = Path(sys.executable).parent / "streamhub"
    ran = []
    for words in invocations(README):
        if words[0].rsplit("/", 1)[-1] != "streamhub" or len(words) == 1 or words[1] not in QUICK:
            continue
        if any(word.isupper() for word in words):  # a form (`package NAME`), no example
            continue
        done = subprocess.run(
            [str(streamhub), *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr if done.returncode else "") == (0, ""), words
        ran.append(words[1])
    assert list(dict.fromkeys(ran)) == list(QUICK)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_python_example_parses_and_imports_what_exists(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in (body for language, body in FENCE.findall(text) if language == "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_module_that_a_page_runs_with_python_m_exists(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    modules = set(re.findall(r"python -m ([a-z_]+(?:\.[a-z_]+)*)", text))
    assert [name for name in sorted(modules) if importlib.util.find_spec(name) is None] == []

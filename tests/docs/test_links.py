"""The documents point at things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = {"build", "dist", "node_modules"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
MACHINE_PATH = re.compile(r"(?<![\w.>}])/(?:home|root|work|Users|tmp|mnt|var|usr)/\w")


def documents() -> list[Path]:
    """Give every Markdown file of the project, without what is built or installed."""
    found = sorted(ROOT.rglob("*.md"))
    inside = [path.relative_to(ROOT) for path in found]
    return [path for path in inside if not any(part.startswith(".") or part in SKIPPED for part in path.parts)]


def anchors(text: str) -> set[str]:
    """Give the fragments that headings make, by GitHub's rule."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    bare = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in bare}


def test_there_are_documents_to_check() -> None:
    assert {Path("README.md"), Path("CONTRIBUTING.md"), Path("CHANGELOG.md")} <= set(documents())


@pytest.mark.parametrize("document", documents(), ids=str)
def test_every_relative_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    broken = []
    for pair in LINK.findall(text):
        link = pair[0] or pair[1]
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, fragment = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        if not target.exists() or (fragment and fragment not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", documents(), ids=str)
def test_no_document_names_a_path_of_one_machine(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert MACHINE_PATH.findall(text) == []


def test_every_decision_record_is_in_the_index_under_its_number() -> None:
    records = sorted(path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md"))
    index = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\[(\d{4})\]\((\d{4}-[a-z0-9-]+\.md)\)", index)
    assert [name for _, name in listed] == records
    assert all(name.startswith(f"{number}-") for number, name in listed)


def test_every_decision_record_fits_the_form() -> None:
    for path in (ROOT / "docs/adr").glob("[0-9]*.md"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.name[:4]} "), path.name
        headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
        assert [name for name in headings if name != "Alternatives"] == ["Context", "Decision", "Consequences"]


def test_every_page_of_the_documentation_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = [pair[0] for pair in LINK.findall(page.read_text(encoding="utf-8")) if pair[0]]
        local = ((page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link)
        waiting += [target for target in local if target.suffix == ".md" and target.exists()]
    pages = {ROOT / page for page in documents() if page.parts[0] == "docs"}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - reached) == []

"""What a rule is: a function from a spec to what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from serving.spec.model import ModelSpec

Finding = tuple[str, str, str, str, str]
"""Key, got, allowed, fix, source; the file is added by the caller, so that a rule knows nothing of files."""

Rule = Callable[[ModelSpec], Iterable[Finding]]

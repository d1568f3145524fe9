"""The file beside a package that says what is in it."""

from __future__ import annotations

from pathlib import Path

from serving.errors import PackagingError
from serving.spec import codec
from serving.spec.manifest import PackageManifest


def manifest_path(package: Path) -> Path:
    """Where the manifest of a package lies: beside it."""
    return package.with_name(package.name.removesuffix(".tar.gz").removesuffix(".model") + ".manifest.json")


def read_manifest(path: Path) -> PackageManifest:
    """Read a manifest that `package` wrote.

    Raises:
        PackagingError: missing, or not such a file.

    """
    try:
        return codec.from_json(path.read_bytes(), PackageManifest)
    except (OSError, ValueError) as error:
        raise PackagingError(
            f"{path}: got no readable manifest ({error}); allowed what `streamhub package` writes beside an archive"
        ) from None

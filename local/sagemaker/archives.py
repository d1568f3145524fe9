"""Archives from S3 on this disk: fetched once, named by the digest of their bytes."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.sagemaker.places import place_of
from serving.errors import EndpointError

_CHUNK = 1 << 20
_MAX_REASON = 1024
_MOST_KNOWN = 1000


@dataclass(frozen=True, slots=True)
class Archive:
    """A model.tar.gz on this disk."""

    path: Path
    sha256: str


def archive_uri(container: Json) -> str:
    """Give where a container's archive lies.

    Raises:
        EndpointError: it has none, or in a form that only AWS can serve.

    """
    source = container.get("ModelDataSource", {}).get("S3DataSource")
    if source is not None:
        if source["S3DataType"] != "S3Object" or source["CompressionType"] != "Gzip":
            raise EndpointError(
                f"{source['S3Uri']}: got S3DataType {source['S3DataType']}, CompressionType "
                f"{source['CompressionType']}; the local SageMaker serves one S3Object with Gzip; "
                "package the model as model.tar.gz"
            )
        return str(source["S3Uri"])
    if "ModelDataUrl" not in container:
        raise EndpointError("the container names no archive; give it ModelDataUrl or ModelDataSource.S3DataSource")
    return str(container["ModelDataUrl"])


class Archives:
    """A folder of archives; the methods block, so they are called in threads."""

    def __init__(self, s3: Any, folder: Path) -> None:  # noqa: ANN401 - a boto3 client
        self._s3 = s3
        self._folder = folder
        self._known: dict[tuple[str, str], Archive] = {}
        for half in folder.glob(".*.part"):  # of a service that was killed
            half.unlink()

    def fetch(self, uri: str) -> Archive:
        """Give the archive of an S3 URI, downloading it unless these very bytes lie here.

        Raises:
            EndpointError: there is no such object, or S3 does not answer; the text is SageMaker's own.

        """
        if not uri.startswith("s3://"):
            raise EndpointError(f"{uri}: the local SageMaker reads s3:// alone; give the archive's S3 URI")
        try:
            place = place_of(uri)
            return self._fetch(uri, bucket=place.bucket, key=place.key)
        except (BotoCoreError, ClientError, OSError) as error:
            reason = (
                f'Failed to download model data for container "container_1" from URL: "{uri}". Please ensure that '
                "there is an object located at the URL and that the role passed to CreateModel has permissions to "
                f"download the object. ({error})"
            )
            raise EndpointError(reason[:_MAX_REASON]) from error

    def _fetch(self, uri: str, *, bucket: str, key: str) -> Archive:
        answer = self._s3.get_object(Bucket=bucket, Key=key)
        seen = (uri, str(answer["ETag"]))
        known = self._known.get(seen)
        if known is not None and known.path.exists():
            answer["Body"].close()
            return known
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = self._folder / f".{uuid.uuid4().hex}.part"
        digest = hashlib.sha256()
        try:
            with scratch.open("wb") as file:
                for chunk in answer["Body"].iter_chunks(_CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
            path = self._folder / f"{digest.hexdigest()}.tar.gz"
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
        archive = self._known[seen] = Archive(path=path, sha256=digest.hexdigest())
        if len(self._known) > _MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)  # it is only fetched again
        return archive

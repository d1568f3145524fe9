"""One file to one key that must not exist yet: in one request, or in parts that S3 checks and a later try resumes.

Whoever sends a key sends the same bytes (keys hold their digest) in the same parts (their size follows from the file).
So two writers may share one upload, and what a killed one left is as good as one's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from serving.aws.registry.content import Content, Part, Transfer, open_slice
from serving.aws.registry.store import LostError, MissingError, RacedError, Store, base64_of
from serving.errors import RegistryError

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

_BINARY = "application/octet-stream"
_ATTEMPTS = 5

Sent = Callable[[int], None]
"""Called with the number of bytes that are in S3 now, of this file, since the last call; from several threads."""


class Upload:
    """One file on its way to one key."""

    def __init__(self, store: Store, key: str, content: Content, *, transfer: Transfer, sent: Sent) -> None:
        self._store = store
        self._key = key
        self._bucket = store.bucket
        self._content = content
        self._transfer = transfer
        self._sent = sent

    def run(self) -> bool:
        """Store the file; False when an object is there already, whoever wrote it and whatever it is.

        Raises:
            RegistryError: S3 refuses, or the file changed since it was read.

        """
        if not self._content.parts:
            return self._store.first(self._key, self._put)
        for _ in range(_ATTEMPTS):
            # another writer completed the upload we shared, or met ours: look, and begin again if nothing is there
            with suppress(MissingError, RacedError):
                return self._in_parts()
            if self._store.head(self._key) is not None:
                return False
        raise RegistryError(f"{self._store.uri(self._key)}: got {_ATTEMPTS} uploads that others ended; push it again")

    def _put(self) -> None:
        with open_slice(self._content.path, 0, self._content.size_bytes) as body:
            self._store.client.put_object(
                Bucket=self._bucket,
                Key=self._key,
                Body=body,
                ContentType=_BINARY,
                ChecksumSHA256=self._content.checksum,
                Metadata={"sha256": self._content.sha256},
                IfNoneMatch="*",
            )
        self._sent(self._content.size_bytes)

    def _in_parts(self) -> bool:
        upload_id, there = self._resumable()
        self._sent(sum(part.size_bytes for part in self._content.parts if part.number in there))
        etags = there | self._send(upload_id, [part for part in self._content.parts if part.number not in there])
        try:
            self._complete(upload_id, etags)
        except LostError:
            self._store.abort_upload(self._key, upload_id)
            return False
        return True

    def _complete(self, upload_id: str, etags: Mapping[int, str]) -> None:
        parts: list[CompletedPartTypeDef] = [
            {"PartNumber": part.number, "ETag": etags[part.number], "ChecksumSHA256": base64_of(part.sha256)}
            for part in self._content.parts
        ]
        with self._store.named(self._key):
            self._store.client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=self._key,
                UploadId=upload_id,
                MultipartUpload={"Parts": parts},
                MpuObjectSize=self._content.size_bytes,
                IfNoneMatch="*",
            )

    def _resumable(self) -> tuple[str, dict[int, str]]:
        """Give the upload of this key that has most of the file, with the ETags of its good parts; else a new one."""
        begun = {upload_id: self._good_parts(upload_id) for upload_id in self._begun()}
        best = max(begun, key=lambda upload_id: len(begun[upload_id]), default=None)
        if best is not None and begun[best]:
            return best, begun[best]
        with self._store.named(self._key):
            made = self._store.client.create_multipart_upload(
                Bucket=self._bucket,
                Key=self._key,
                ContentType=_BINARY,
                ChecksumAlgorithm="SHA256",
                Metadata={"sha256": self._content.sha256},
            )
        return made["UploadId"], {}

    def _begun(self) -> Iterator[str]:
        with self._store.named(self._key):
            pages = self._store.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._key
            )
            for page in pages:
                yield from (entry["UploadId"] for entry in page.get("Uploads", ()) if entry["Key"] == self._key)

    def _good_parts(self, upload_id: str) -> dict[int, str]:
        """Give number → ETag of the parts whose SHA-256, checked by S3 when they came, is that of the file's own."""
        wanted = {part.number: (part.size_bytes, base64_of(part.sha256)) for part in self._content.parts}
        found: dict[int, str] = {}
        with suppress(MissingError), self._store.named(self._key):
            for page in self._store.client.get_paginator("list_parts").paginate(
                Bucket=self._bucket, Key=self._key, UploadId=upload_id
            ):
                for part in page.get("Parts", ()):
                    if wanted.get(part["PartNumber"]) == (part["Size"], part.get("ChecksumSHA256")):
                        found[part["PartNumber"]] = part["ETag"]
        return found

    def _send(self, upload_id: str, parts: Sequence[Part]) -> dict[int, str]:
        """Send parts in parallel, each streamed from the file; after a failure no further one begins."""
        stopped = threading.Event()

        def send(part: Part) -> tuple[int, str]:
            if stopped.is_set():
                raise RegistryError(f"{self._store.uri(self._key)}: part {part.number} was not begun")
            try:
                return part.number, self._send_part(upload_id, part)
            except BaseException:
                stopped.set()
                raise

        with ThreadPoolExecutor(max_workers=self._transfer.parallel, thread_name_prefix="part") as pool:
            try:
                return dict(pool.map(send, parts))
            except BaseException:
                stopped.set()
                raise

    def _send_part(self, upload_id: str, part: Part) -> str:
        with self._store.named(self._key), open_slice(self._content.path, part.start, part.size_bytes) as body:
            answer = self._store.client.upload_part(
                Bucket=self._bucket,
                Key=self._key,
                UploadId=upload_id,
                PartNumber=part.number,
                Body=body,
                ChecksumSHA256=base64_of(part.sha256),
            )
        self._sent(part.size_bytes)
        return answer["ETag"]

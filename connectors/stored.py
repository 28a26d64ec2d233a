"""Files of the artifact store inside a request: described when it is prepared, read at the send."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import httpx

from runner.contract import Json, Tools, digest
from runner.errors import NotFound, RequestError

LINE_BREAKS = re.compile(r"[\r\n\u2028\u2029\u0085\v\f\x1c-\x1e]+")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_MEDIA_TYPE = re.compile(r"^[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*$")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_KINDS = {
    **{kind: f"application/{kind}" for kind in ("pdf", "json", "xml", "zip")},
    **{kind: f"image/{kind}" for kind in ("png", "jpeg", "gif")},
    "jpg": "image/jpeg",
    "csv": "text/csv",
    "txt": "text/plain",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}


def one_line(text: str) -> str:
    """The text with every line break made a space, and without the signs nobody can see."""
    return CONTROL.sub("", LINE_BREAKS.sub(" ", text.replace("\t", " "))).strip()


def stored_files(files: Json, what: str) -> list[dict[str, Json]]:
    """One file or a list of them as `name kind sha256 size`, the name and the kind as a header may carry them.

    Raises RequestError.
    """
    found = []
    for file in files if isinstance(files, list) else [] if files is None else [files]:
        if not isinstance(file, Mapping) or not file.get("sha256") or not file.get("name"):
            raise RequestError(f"{what} takes files, each with name, size, kind and sha256")
        name = one_line(str(file["name"])).replace("/", "_").replace("\\", "_")
        kind = str(file.get("kind") or "").lower()
        kind = _KINDS.get(kind, kind)
        if not _MEDIA_TYPE.match(kind) or kind.startswith(("multipart/", "message/")):
            kind = "application/octet-stream"
        found.append({"name": name, "kind": kind, "sha256": str(file["sha256"]), "size": file.get("size", 0)})
    return found


def content_of(tools: Tools, file: Mapping[str, Json]) -> bytes:
    """The bytes of a file, which are what was given. Raises NotFound."""
    content = tools.file(str(file["sha256"]))
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise NotFound(f"the stored file {file['name']} is not the one that was given")
    return content


def boundary_of(parts: Json) -> str:
    """What stands between parts: the same for the same parts, and in none of them: it is made of their digests."""
    return f"amends-{digest(parts)[:48]}"


def multipart_body(parts: Json, tools: Tools) -> bytes:
    """The body of `parts`: each `{ name, text }` or `{ name, file }`, in their order. Raises NotFound."""
    fields = [
        (part["name"], (part["file"]["name"], content_of(tools, part["file"]), part["file"]["kind"]))
        if "file" in part
        else (part["name"], (None, part["text"]))
        for part in parts
    ]
    kind = {"content-type": f"multipart/form-data; boundary={boundary_of(parts)}"}
    return httpx.Request("POST", "http://localhost", files=fields, headers=kind).read()

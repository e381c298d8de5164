"""Read the content of a message: text, or text with images, audio and files, which are kept by digest."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, NamedTuple

from agent_eval.importers.vocabulary import first_text


class Content(NamedTuple):
    """Content of a message.

    Attributes:
        value: The text, or the JSON value; None if there is none, or it is in the parts.
        parts: Fields of `ContentPart`, where a text alone cannot hold the content.
    """

    value: Any
    parts: list[dict[str, Any]] | None = None


_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"})
_MEDIA = {
    **dict.fromkeys(("image", "image_url", "input_image", "output_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "output_audio", "audio_url"), "audio"),
    **dict.fromkeys(("file", "input_file", "document", "video", "container_upload", "media"), "file"),
}


def content_of(content: Any) -> Content:
    """Read content as OpenAI, Anthropic and LangChain write it: a text, or a list of typed blocks.

    A list that holds other things than text, images, audio and files is a value like any other.

    Example:
        >>> content_of("").value, content_of([{"type": "text", "text": "Hi"}]).value
        (None, 'Hi')
    """
    if type(content) is str:
        return Content(content or None)
    if not isinstance(content, list) or (content and all(isinstance(block, str) for block in content)):
        return Content(content)
    parts = [part_of(block) for block in content]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Content(content)
    if all(part["type"] == "text" for part in known):
        return Content("".join(part["text"] for part in known) or None)
    return Content(None, known)


def part_of(block: Any) -> dict[str, Any] | None:
    """Read one block as the fields of a `ContentPart`; None if it is no text, image, audio or file."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _TEXTS:
        value = next((block[name] for name in ("text", "refusal") if isinstance(block.get(name), str)), None)
        return None if value is None else {"type": "text", "text": value}
    if kind not in _MEDIA:
        return None
    return _media(_MEDIA[kind], block)


def _media(kind: str, block: dict[str, Any]) -> dict[str, Any]:
    source = next((block[name] for name in _INNER if isinstance(block.get(name), dict)), block)
    if isinstance(source.get("source"), dict):
        source = source["source"]
    fields: dict[str, Any] = {"type": kind}
    name = source.get("filename") or block.get("filename") or block.get("title") or block.get("name")
    if isinstance(name, str) and name:
        fields["name"] = name
    data = first_text(source, _DATA)
    address = first_text(source, _ADDRESSES) or first_text(block, _ADDRESSES)
    media_type = source.get("media_type") or source.get("mime_type") or source.get("mimeType")
    if data is None and address is not None and address.startswith("data:"):
        head, _, data = address.partition(",")
        media_type, address = head[5:].removesuffix(";base64"), None
    if media_type is None and isinstance(source.get("format"), str):
        media_type = f"{kind}/{source['format']}"
    return fields | described(data, media_type, address)


_INNER = ("image_url", "input_audio", "audio_url", "file", "source", "image", "audio")
_DATA = ("data", "file_data", "base64")
_ADDRESSES = ("url", "image_url", "file_url", "file_uri", "fileUri", "uri", "file_id")


def described(data: str | None, media_type: Any, address: str | None = None) -> dict[str, Any]:
    """Describe bytes by digest, type and size instead of holding them.

    Args:
        data: The bytes in base64; None if the source has none.
        media_type: Such as `image/png`.
        address: Where the bytes are, if they were sent as an address.
    """
    fields: dict[str, Any] = {}
    if isinstance(media_type, str) and media_type:
        fields["media_type"] = media_type
    if data is not None:
        if data.startswith("data:"):
            data = data.partition(",")[2]
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raw = data.encode("utf-8", "surrogatepass")
        fields |= {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw)}
    if address:
        fields["url"] = address
    return fields

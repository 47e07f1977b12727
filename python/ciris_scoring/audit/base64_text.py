"""Decode base64 strictly. Agents write standard and URL-safe base64, with and without padding."""

import base64
import binascii


def means(text: str, content: bytes) -> bool:
    """Return whether a text is valid base64 and decodes to the given bytes."""
    try:
        return decode(text) == content
    except ValueError:
        return False


def decode(text: str) -> bytes:
    """Decode standard or URL-safe base64, with or without padding, or raise a ValueError.

    Decoding is strict: two texts of the same variant never decode to the same bytes.
    """
    standard = text.replace("-", "+").replace("_", "/") if not set("+/") & set(text) else text
    bare = standard.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    if standard not in (bare, padded):
        raise ValueError("not base64: wrong padding")
    try:
        content = base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not base64") from error
    if base64.b64encode(content).decode() != padded:
        raise ValueError("not base64: bits left over at its end")
    return content

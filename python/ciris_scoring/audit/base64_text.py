"""Decode base64. Agents write standard and URL-safe base64, with and without padding."""

import base64


def means(text: str, content: bytes) -> bool:
    """Return whether a text is valid base64 and decodes to the given bytes."""
    try:
        return decode(text) == content
    except ValueError:
        return False


def decode(text: str) -> bytes:
    """Decode standard or URL-safe base64, with or without padding, or raise a ValueError."""
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError as error:
        raise ValueError("not base64") from error

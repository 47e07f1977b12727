"""Base64 in its variants, each text with one meaning."""

import base64
import binascii


def means(text: str, content: bytes) -> bool:
    """Whether a text, which may be no base64, is that of these bytes."""
    try:
        return decode(text) == content
    except ValueError:
        return False


def decode(text: str) -> bytes:
    """Decode standard or URL-safe base64, padded or not.

    Strict: a text with one bit changed never means the same.

    :raises ValueError: it is neither.
    """
    standard = text.replace("-", "+").replace("_", "/") if not set("+/") & set(text) else text
    bare = standard.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    if standard not in (bare, padded):
        raise ValueError("no base64: wrong padding")
    try:
        content = base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("no base64") from error
    if base64.b64encode(content).decode() != padded:
        raise ValueError("no base64: bits left over at its end")
    return content

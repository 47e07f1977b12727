"""Reasons why something was not loaded or not verified."""

from typing import NamedTuple

UNREADABLE = "unreadable"  # a file, or a part of it, cannot be read
NOT_JSON = "not_json"
NOT_A_BATCH = "not_a_batch"  # the JSON is not a batch
TRUNCATED = "truncated"
TOO_LARGE = "too_large"
TOO_DEEP = "too_deep"
DUPLICATE_KEY = "duplicate_key"
NOT_A_NUMBER = "not_a_number"  # NaN or Infinity
INVALID_TEXT = "invalid_text"  # the text is not UTF-8, or has NUL or half of a surrogate pair
MISSING_FIELD = "missing_field"
WRONG_TYPE = "wrong_type"
OUT_OF_RANGE = "out_of_range"
BAD_TIME = "bad_time"
CONFLICT = "conflicting_trace"  # the trace is loaded with another content
BAD_KEY = "bad_key"

UNKNOWN_KEY = "unknown_key"
BAD_SIGNATURE = "bad_signature"
MALFORMED_SIGNATURE = "malformed_signature"
UNSUPPORTED_SCHEMA = "unsupported_schema"
FOREIGN_KEY = "foreign_key"  # the key belongs to another agent
REPLAYED_SIGNATURE = "replayed_signature"  # the same decision is loaded under another id
UNCONFIRMED_FIELD = "unconfirmed_field"  # a field that is not signed contradicts the signed fields


class Problem(NamedTuple):
    """Something that was not loaded or not verified."""

    where: str
    reason: str
    detail: str


class Rejected(Exception):
    """A document, an event or a value cannot be loaded."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason
        self.detail = detail

"""Errors that a person can act on.

The command line prints each as one line and a hint, without a traceback. Anything else that reaches it is a bug.
"""

INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM, as shells give it."""


class CirisError(Exception):
    """An expected failure: what went wrong (``message``) and what to do about it (``hint``)."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(CirisError):
    """A value given by the user is not acceptable; nothing was started."""

    exit_code = 2


class ProfileError(CirisError):
    """The dbt profile or project cannot be used."""

    exit_code = 2


class DatabaseError(CirisError):
    """The database cannot be reached, refuses us, or failed in the middle of the work."""


class RunInProgress(CirisError):
    """Another run holds the lock of this target."""


class DbtFailed(CirisError):
    """A dbt invocation failed; what was published before stays as it was."""


class RunRefused(DbtFailed):
    """The checks at the start of a run refused it: no trace was read."""


class StepError(CirisError):
    """The statistics found inputs that do not keep the contract."""


class CommandFailed(CirisError):
    """A command that the user named did not succeed; the scores are published."""


def one_line(error: BaseException | str) -> str:
    """Message of an error, or a text, on one line, without indentation and line breaks."""
    return " ".join(str(error).split())


def shown(value: object) -> str:
    """Write a value as a message shows it: text in quotes, so that '6' differs from 6."""
    if isinstance(value, str):
        return repr(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)

"""Expected errors, of which the command line prints message and hint without a traceback. All other exceptions are
bugs."""

INTERRUPTED = 130
"""Exit code after Ctrl-C or SIGTERM, as in shells."""


class CirisError(Exception):
    """Expected failure; the hint is the remedy."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(CirisError):
    """A value given by the user is not valid; nothing was started."""

    exit_code = 2


class ProfileError(CirisError):
    """The dbt profile or project cannot be used."""

    exit_code = 2


class NoProfile(ProfileError):
    """No folder is named for the dbt profile, and it is not where dbt looks for it."""


class DatabaseError(CirisError):
    """The database cannot be reached, refuses the login or a statement, or failed during the work."""


class NoRight(DatabaseError):
    """The role may not read a relation."""


class RunInProgress(CirisError):
    """Another run holds the lock of this target."""


class DbtFailed(CirisError):
    """A dbt command failed."""


class RunRefused(DbtFailed):
    """The checks at the start of a run refused it. No trace was read."""


class StepError(CirisError):
    """The statistics of a run found invalid inputs."""


def one_line(error: BaseException | str) -> str:
    """Return the message of an error, or a text, on one line."""
    return " ".join(str(error).split())


def shown(value: object) -> str:
    """Return a value as messages show it. Text is quoted, so that '6' differs from 6."""
    if isinstance(value, str):
        return repr(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)

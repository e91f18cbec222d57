"""Exceptions, by the table of errors that all of kumiko shares (spec/errors.toml): one class for each kind of fault, and a few
that programs want to tell apart."""

import functools
import tomllib

from . import _kumiko

_REMEDIES = {
    "no": "The same again fails again: mend what the message names.",
    "later": "It may succeed unchanged after a while.",
    "now": "Repeat it: that is safe.",
}


class Error(Exception):
    """`name` is a row of the table; `meaning` and `fault` stand there; `retry` is no, later or now; `remedy` what to do."""

    def __init__(self, name, message):
        super().__init__(message)
        row = _table().get(name, {})
        self.name = name
        self.meaning = row.get("meaning", "")
        self.fault = row.get("fault", "peer")
        self.retry = row.get("retry", "no")
        self.remedy = _REMEDIES[self.retry]

    def __reduce__(self):
        return type(self), (self.name, str(self)), self.__dict__


class CallerError(Error):
    """Who calls can mend it."""


class PeerError(Error):
    """The program at the other end, or what lies between, is at fault."""


class SiteError(Error):
    """The site's operator can mend it."""


class GuestError(Error):
    """The routine failed."""


class RoutineRaised(GuestError):
    """The routine ended by an error of its own; `error` is its name, as `ValueError` or `numpy.linalg.LinAlgError`."""

    error = None


class Bug(Error):
    """Ours; please report it."""


class ArgumentError(CallerError, ValueError):
    """An argument is not as the routine takes it; `parameter` names it."""

    parameter = None


class RoutineNotFound(CallerError, LookupError):
    """The site has no such routine."""


class CallUnknown(CallerError, LookupError):
    """No call of this number was begun from here, or its result is gone."""


class ConnectionLost(PeerError, ConnectionError):
    """The site cannot be reached, or the link broke and stayed so."""


_FAMILIES = {"caller": CallerError, "peer": PeerError, "site": SiteError, "guest": GuestError, "bug": Bug}
_CLASSES = {
    "bad_arguments": ArgumentError,
    "no_routine": RoutineNotFound,
    "routine_raised": RoutineRaised,
    "no_note": CallUnknown,
    "result_gone": CallUnknown,
    "rpc_no_call": CallUnknown,
    "link_lost": ConnectionLost,
    "site_unreachable": ConnectionLost,
}


@functools.cache
def _table():
    return tomllib.loads(_kumiko.ERRORS)


def made(name, message, detail=None):
    """The exception of a code; called by the native half. `detail`: the parameter, or the name of the routine's own error."""
    family = _FAMILIES[_table().get(name, {}).get("fault", "peer")]
    error = _CLASSES.get(name, family)(name, message)
    if isinstance(error, ArgumentError):
        error.parameter = detail
    if isinstance(error, RoutineRaised):
        error.error = detail
    return error

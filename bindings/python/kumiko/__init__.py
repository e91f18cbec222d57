"""kumiko: routines of other machines, called as if they were here.

    import kumiko, numpy
    solve = kumiko.rpc("linpack/dgesv")
    x = solve(a, b).b

Arrays are anything with the buffer protocol, numpy's above all; what comes back are numpy's where there is numpy, else
memoryviews. `help(solve)` says what a routine takes and gives.

Not here: jobs and files; use the command `kumiko`.
"""

from ._calls import Executor, Future, attach
from ._kumiko import VERSION as __version__
from ._routine import Array, InOut, Out, checkpoint, routine
from ._sites import Routine, Site, connect, default, find, rpc
from .errors import (
    ArgumentError,
    Bug,
    CallerError,
    CallUnknown,
    ConnectionLost,
    Error,
    GuestError,
    PeerError,
    RoutineNotFound,
    RoutineRaised,
    SiteError,
)

__all__ = [
    "ArgumentError",
    "Array",
    "Bug",
    "CallUnknown",
    "CallerError",
    "ConnectionLost",
    "Error",
    "Executor",
    "Future",
    "GuestError",
    "InOut",
    "Out",
    "PeerError",
    "Routine",
    "RoutineNotFound",
    "RoutineRaised",
    "Site",
    "SiteError",
    "__version__",
    "attach",
    "checkpoint",
    "connect",
    "default",
    "find",
    "routine",
    "rpc",
]

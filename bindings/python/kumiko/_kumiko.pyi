"""The native half (crates/python)."""

from os import PathLike
from typing import Any

ERRORS: str
VERSION: str

class Piece:
    def __buffer__(self, flags: int, /) -> memoryview: ...

_Texts = list[bytes | None | "_Texts"]
_Outputs = list[tuple[str, bool, Piece | _Texts]]

class Progress:
    def __init__(self) -> None: ...
    def now(self) -> tuple[str, int, int, float, int]: ...

class Completions:
    def __init__(self) -> None: ...
    def next(self) -> list[tuple[int, Call]]: ...

class Call:
    @property
    def id(self) -> str: ...
    def result(self) -> _Outputs: ...
    def cancel(self) -> None: ...

class Routine:
    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def documentation(self) -> str | None: ...
    @property
    def parameters(self) -> list[tuple[str, bool, bool, str, list[str], bool, bool]]: ...
    @property
    def has_functions(self) -> bool: ...
    def call(
        self,
        given: tuple[Any, ...],
        named: dict[str, Any] | None = None,
        copy: bool = False,
        progress: Progress | None = None,
    ) -> _Outputs: ...
    def begin(
        self,
        given: tuple[Any, ...],
        named: dict[str, Any] | None,
        completions: Completions,
        key: int,
        progress: Progress | None = None,
    ) -> Call: ...

class Links:
    def __init__(
        self,
        contact: str | PathLike[str] | None = None,
        durability: str | None = None,
    ) -> None: ...
    def find(
        self,
        name: str,
        requirement: str,
        rank: str | None = None,
        index: str | None = None,
    ) -> Routine | None: ...
    def close(self) -> None: ...

class Site:
    def __init__(
        self,
        contact: str | PathLike[str] | None = None,
        server: str | None = None,
        durability: str | None = None,
    ) -> None: ...
    @property
    def address(self) -> str: ...
    def routines(self) -> list[Routine]: ...
    def routine(self, name: str) -> Routine: ...
    def open_calls(self) -> list[str]: ...
    def attach(self, call: str, completions: Completions, key: int) -> Call: ...
    def close(self) -> None: ...

"""Sites and their routines. The native half does the work; here are names, documentation and what ends with the process."""

import asyncio
import atexit
import inspect
import keyword
import math
import os
import threading
import time
import warnings
import weakref

from . import _calls, _kumiko, _progress, _results, errors

_sites = weakref.WeakSet()
_default = None
_default_lock = threading.Lock()
# By contact file and durability: the sessions of routines that an index tells of.
_links = {}
# By routine: what an index told; None where none is configured, which is not looked for again for a while.
_best = {}
_NONE_S = 30


class Site:
    """A connection to one site; threads may share it. Made by `connect`."""

    def __init__(self, native):
        self._native = native
        _sites.add(self)

    @property
    def address(self):
        """HOST:PORT."""
        return self._native.address

    def rpc(self, name, *, progress=False):
        """The routine of this name, MODULE/NAME; raises RoutineNotFound. `progress`: its calls tell on a terminal how far they are."""
        return Routine(self._native.routine(name), self, progress)

    def routines(self):
        """All routines of the site."""
        return [Routine(one, self) for one in self._native.routines()]

    def open_calls(self):
        """Numbers of calls that were begun from here, also by programs that have died, whose results nobody has taken."""
        return self._native.open_calls()

    def attach(self, call):
        """A future of the result of a call that another process began; raises CallUnknown."""
        return _calls.begin(lambda completions, key: self._native.attach(str(call), completions, key))

    def close(self):
        """Says goodbye. Done at the end of the process by itself."""
        _sites.discard(self)
        self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<kumiko.Site {self.address}>"


class Routine:
    """A routine of a site, or of those that an index tells of. Call it, or `submit` it for a future, or `await routine.async_(...)`.

    Arguments are what goes in, in order or by name; sizes that arrays tell may be left out. What is given is never changed.
    What comes back is a tuple with names; one output alone is itself. With `progress=True` a call that lasts tells on a terminal how far
    it is (by tqdm, where that is installed); of a routine with an argument of that name, `kumiko.rpc(..., progress=True)` does."""

    def __init__(self, native, site=None, progress=False):
        self._native = native
        self._progress = progress
        self._names = {name for name, *_ in native.parameters}
        self._site = site  # which says goodbye at the end, so it stays
        self.__name__ = self.name.partition("/")[2]
        self.__doc__ = _documentation(native)
        self.__signature__ = _signature(native)

    @property
    def name(self):
        """MODULE/NAME."""
        return self._native.name

    @property
    def idl(self):
        """The signature in Ninf IDL."""
        return self._native.signature

    def __call__(self, *given, **named):
        with _progress.shown(self.name, self._shows(named)) as progress:
            return _results.result(self._native.call(given, named, progress=progress))

    def _shows(self, named):
        if "progress" in self._names:
            return self._progress
        return named.pop("progress", self._progress)

    def submit(self, *given, **named):
        """A future of the result. Arrays are copied: they may change at once; files are left alone until it is done. Functions are
        called in a thread of its own, and the future of such a call cannot be cancelled."""
        progress, end = _progress.begin(self.name, self._shows(named)) or (None, None)
        try:
            if self._native.has_functions:
                future = _calls.in_thread(lambda: _results.result(self._native.call(given, named, True, progress)))
            else:
                future = _calls.begin(lambda completions, key: self._native.begin(given, named, completions, key, progress))
        except BaseException:
            if end is not None:
                end()
            raise
        if end is not None:
            future.add_done_callback(lambda _: end())
        return future

    async def async_(self, *given, **named):
        """As a call, for asyncio; cancelled with its task."""
        return await asyncio.wrap_future(self.submit(*given, **named))

    def __repr__(self):
        return f"<kumiko.Routine {self.name}{self.__signature__}>"


def _documentation(native):
    lines = [native.documentation or "", ""]
    for name, is_in, is_out, element, sizes, told, is_one in native.parameters:
        way = {(True, False): "in", (False, True): "out", (True, True): "in and out"}.get((is_in, is_out))
        if element == "function" or (element == "file name" and not sizes):
            lines.append(f"{name}: {element}")
            continue
        if way is None:
            continue
        shape = "" if is_one or not sizes else f", shape ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        left_out = ", told by an array" if told else ""
        lines.append(f"{name}: {way}, {element}{shape}{left_out}")
    return "\n".join(lines).strip()


def _signature(native):
    # Given in order all of them stand in the routine's own; without those that arrays tell, the others do.
    ways = [inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY]
    names = [(told, name) for name, is_in, _, _, _, told, _ in native.parameters if is_in]
    parameters = [
        # What is a word of Python's own is given by `**{...}`.
        inspect.Parameter(name + "_" * keyword.iskeyword(name), ways[told], default=None if told else inspect.Parameter.empty)
        for told, name in sorted(names, key=lambda one: one[0])
    ]
    return inspect.Signature(parameters)


def connect(contact=None, server=None, durability=None):
    """Connects to a site: the personal one of `kumiko site start`, or that of a file like its contact.toml; `server` is another
    HOST:PORT for the same credential. `durability`: none (fastest), record, full (a call outlives all machines but its site's
    disk), or auto (usual: full, of a call that takes a second, or has more than 256 KiB of arguments)."""
    return Site(_kumiko.Site(contact, server, durability))


def rpc(name, site=None, *, progress=False):
    """The routine of this name at a site; else, where contact.toml names an index, at the best one for each call of those that have it, and at
    the personal site otherwise. `progress`: its calls tell on a terminal how far they are."""
    found = None if site else _found(name)
    if found is not None:
        return Routine(found, progress=progress)
    return (site or default()).rpc(name, progress=progress)


def _found(name):
    at, found = _best.get(name, (-math.inf, None))
    if found is not None or time.monotonic() - at < _NONE_S:
        return found
    try:
        found = _links_of(None, None).find(name, "")
    except errors.PeerError as error:
        warnings.warn(f"{error}: the configured site is taken", stacklevel=3)
        return None
    _best[name] = (time.monotonic(), found)
    return found


def _links_of(contact, durability):
    key = (contact and os.fspath(contact), durability)
    with _default_lock:
        if key not in _links:
            _links[key] = _kumiko.Links(contact, durability)
        return _links[key]


def find(name, where="", *, rank=None, index=None, contact=None, durability=None, progress=False):
    """The routine of this name at the sites that have it and are like `where`: expressions and `rank` are those of `kumiko rpc call
    --where`. Each of its calls is at the one that would have its result first, or the next where that does not answer. `index`: an
    info server, HOST or HOST:PORT; else the contact file's, or that of KUMIKO_INFO. Raises RoutineNotFound, which says why each site
    does not have it."""
    links = _links_of(contact, durability)
    for asked in (index, None if index else os.environ.get("KUMIKO_INFO")):
        found = links.find(name, where, rank, asked or None)
        if found is not None:
            return Routine(found, progress=progress)
    raise ValueError("no index is named: by `index`, in the contact file, or by KUMIKO_INFO")


def default():
    """The personal site, connected at first use."""
    global _default
    with _default_lock:
        if _default is None:
            _default = connect()
        return _default


@atexit.register
def _goodbye():
    for site in [*_sites, *_links.values()]:
        try:
            site.close()
        except Exception:  # a site that is away keeps the results
            pass


def _forked():
    # The parent's connections are the parent's.
    global _default, _default_lock, _sites
    _default, _default_lock, _sites = None, threading.Lock(), weakref.WeakSet()
    _links.clear()
    _best.clear()


os.register_at_fork(after_in_child=_forked)

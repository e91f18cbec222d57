"""Futures of calls, and an executor of concurrent.futures. One thread, of the interpreter's own, takes what the native half has
finished; no thread of the native half touches Python."""

import concurrent.futures
import itertools
import os
import threading

from . import _kumiko, _results


class Future(concurrent.futures.Future):
    """Of one call. `call_id` is what `attach` and `kumiko rpc attach` take. It can be cancelled until it is done."""

    _call = None

    @property
    def call_id(self):
        return self._call and self._call.id

    def cancel(self):
        cancelled = super().cancel()
        if cancelled and self._call is not None:
            self._call.cancel()
        return cancelled


class _Watch:
    def __init__(self):
        self.completions = _kumiko.Completions()
        self.futures = {}
        self.keys = itertools.count(1)
        threading.Thread(target=self._run, name="kumiko", daemon=True).start()

    def _run(self):
        while True:
            for key, call in self.completions.next():
                self._end(self.futures.pop(key), call)

    @staticmethod
    def _end(future, call):
        try:
            outcome, error = _results.result(call.result()), None
        except BaseException as raised:
            outcome, error = None, raised
        # It stays pending until here, so that it can be cancelled.
        if future.set_running_or_notify_cancel():
            if error is None:
                future.set_result(outcome)
            else:
                future.set_exception(error)


_watch = None
_watch_lock = threading.Lock()


def begin(start):
    """A future of what `start(completions, key)` begins."""
    global _watch
    with _watch_lock:
        if _watch is None:
            _watch = _Watch()
        watch = _watch
    key = next(watch.keys)
    future = watch.futures[key] = Future()
    try:
        call = start(watch.completions, key)
    except BaseException:
        del watch.futures[key]
        raise
    future._call = call
    return future


def in_thread(work):
    """A future of what `work` gives, in a thread of its own."""
    future = Future()
    future.set_running_or_notify_cancel()

    def run():
        try:
            outcome = work()
        except BaseException as raised:
            future.set_exception(raised)
        else:
            future.set_result(outcome)

    threading.Thread(target=run, name="kumiko call", daemon=True).start()
    return future


def attach(call, site=None):
    """A future of the result of a call that another process began, by its number; raises CallUnknown."""
    from . import _sites

    return (site or _sites.default()).attach(call)


class Executor(concurrent.futures.Executor):
    """Calls of routines as concurrent.futures has them: `fn` is a routine or its name."""

    def __init__(self, site=None):
        self._site = site
        self._routines = {}
        self._open = set()
        self._lock = threading.Lock()
        self._shut = False

    def submit(self, fn, /, *given, **named):
        from . import _sites

        if isinstance(fn, str):
            if fn not in self._routines:
                self._routines[fn] = _sites.rpc(fn, self._site)
            fn = self._routines[fn]
        if not isinstance(fn, _sites.Routine):
            raise TypeError(f"{fn!r} is no routine of a site: a function of this process cannot be sent")
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot submit after shutdown")
            future = fn.submit(*given, **named)
            self._open.add(future)
        future.add_done_callback(self._done)
        return future

    def _done(self, future):
        with self._lock:
            self._open.discard(future)

    def shutdown(self, wait=True, *, cancel_futures=False):
        with self._lock:
            self._shut = True
            left = list(self._open)
        if cancel_futures:
            for future in left:
                future.cancel()
        if wait:
            concurrent.futures.wait(left)


def _forked():
    global _watch, _watch_lock
    _watch, _watch_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)

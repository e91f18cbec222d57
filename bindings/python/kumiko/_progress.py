"""How far a call is, told on a terminal while it lasts: by tqdm where that is installed, else in lines. Where stderr is no terminal, or the
call is over soon, nothing. Not here: what is told (crates/python)."""

import contextlib
import sys
import threading

from . import _kumiko

# Shorter calls tell nothing.
SOON_S = 0.5
# As tqdm draws.
LOOK_S = 0.1
# A line behind another of the same stage.
LINE_S = 10


@contextlib.contextmanager
def shown(name, wanted):
    """Gives what the native half marks while the call lasts, or None."""
    begun = begin(name, wanted)
    if begun is None:
        yield None
        return
    progress, end = begun
    try:
        yield progress
    finally:
        end()


def begin(name, wanted):
    """What the native half marks, and what is to be called when the call is over; or None."""
    if not wanted or not sys.stderr.isatty():
        return None
    progress, over = _kumiko.Progress(), threading.Event()
    show = threading.Thread(target=_show, args=(name, progress, over), name="kumiko progress", daemon=True)
    show.start()

    def end():
        over.set()
        show.join()

    return progress, end


def _show(name, progress, over):
    if over.wait(SOON_S):
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        display = _Lines(name)
    else:
        display = _Bars(name, tqdm)
    while not over.wait(LOOK_S):
        display.look(*progress.now())
    display.close()


class _Lines:
    def __init__(self, name):
        self.name, self.stage, self.next_s = name, None, 0

    def look(self, stage, done, all, lasted_s, asked):
        if stage != self.stage:
            self.stage, self.next_s = stage, 0
        if stage == "over" or lasted_s < self.next_s:
            return
        self.next_s = (lasted_s // LINE_S + 1) * LINE_S
        words = [f"{self.name}: {stage}"]
        if all:
            words.append(f"{done / 1e6:.1f} of {all / 1e6:.1f} MB")
        if lasted_s >= 1:
            words.append(f"for {lasted_s:.0f} s")
        if asked:
            words.append(f"{asked} callbacks")
        print(", ".join(words), file=sys.stderr, flush=True)

    def close(self):
        pass


class _Bars:
    """A bar for each stage; the routine itself does not say how far it is, so there the time runs."""

    def __init__(self, name, tqdm):
        self.name, self.tqdm, self.stage, self.bar = name, tqdm, None, None

    def look(self, stage, done, all, lasted_s, asked):
        if stage != self.stage:
            self.close()
            self.stage = stage
            if stage == "over":
                return
            label = f"{self.name}: {stage}"
            if stage == "computing":
                self.bar = self.tqdm(desc=label, bar_format="{desc} {elapsed}{postfix}")
            else:
                self.bar = self.tqdm(desc=label, total=all, unit="B", unit_scale=True)
        if self.bar is None:
            return
        if stage == "computing":
            if asked:
                self.bar.set_postfix_str(f"{asked} callbacks", refresh=False)
            self.bar.refresh()
        else:
            self.bar.total = all
            self.bar.update(done - self.bar.n)

    def close(self):
        if self.bar is not None:
            self.bar.close()
            self.bar = None

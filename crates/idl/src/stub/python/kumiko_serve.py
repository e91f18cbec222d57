"""A program of a routine in Python: it is told calls, computes them, and answers (spec/rpc P60 to P65), as programs of C do (runtime.c).
Beside it lie the module `kumiko`, which declares, and the routine's own. Not here: sections, callbacks, files that come back, which no
such routine has."""

import mmap
import os
import pathlib
import select
import struct
import sys
import traceback

CALL, DONE, FAIL = b"kkmcall1", b"kkmdone1", b"kkmfail1"
NONE = 2**64 - 1
ARGUMENTS_SMALL, RESULT_SMALL = 1, 2
HEAD_BYTES = 16
# Of an error's text, which the site takes at most (4,096), names and numbers apart.
ERROR_BYTES = 4000
# Of a traceback the last frames of the routine's own files are told, and where it was raised.
OWN_FRAMES = 3
# No call for so long: its site does not come back.
IDLE_S = 600


class Gone(Exception):
    """Nobody tells calls any more."""


def read(count):
    parts, left = [], count
    while left:
        part = os.read(0, left)
        if not part:
            if left == count:
                raise Gone
            raise EOFError("a call that breaks off")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def words(count):
    return struct.unpack(f"<{count}Q", read(8 * count))


def write(data):
    view = memoryview(data).cast("B")
    while len(view):
        view = view[os.write(say, view) :]


class Place:
    """Where an argument stands, as the site says."""

    def __init__(self, formal):
        self.formal = formal
        self.kind, self.given, self.taken, _, self.bytes, _, dimensions = words(7)
        sections = [words(4) for _ in range(dimensions)]
        self.shape = tuple(size for size, _, _, _ in sections)

    def array(self, memory, at):
        import numpy

        dtype = numpy.dtype(self.formal.dtype).newbyteorder("<")
        if 0 in self.shape:
            return numpy.empty(self.shape, dtype)
        return numpy.ndarray(self.shape, dtype, buffer=memory, offset=at)

    def argument(self, number, call):
        formal, head = self.formal, call.given[HEAD_BYTES * number : HEAD_BYTES * (number + 1)]
        if formal.kind == "array":
            if self.taken == NONE:
                return self.array(call.given, self.given)
            # What comes back is changed where it goes.
            array = self.array(call.result, self.taken)
            if self.given != NONE:
                array[...] = self.array(call.given, self.given)
            return array
        if formal.kind == "number":
            import numpy

            one = numpy.frombuffer(head, formal.dtype, 1)[0]
            return one.item() if formal.plain else one
        length = int.from_bytes(head[:8], "little")
        if formal.kind == "text":
            if self.given == NONE:
                return None
            return bytes(call.given[self.given : self.given + length]).decode("utf-8", "surrogateescape")
        path = pathlib.Path.cwd() / f"{call.name}.{call.epoch}.file{number}"
        with open(path, "wb") as file:
            file.write(memoryview(call.given)[self.given : self.given + length])
        call.files.append(path)
        return path

    def put(self, value, call):
        """What the function returned for it."""
        import numpy

        value = numpy.asarray(value)
        if value.shape != self.shape and not (self.shape == (1,) and value.shape == ()):
            raise ValueError(f"{self.formal.name}: its shape is {value.shape}, and the routine gives {self.shape}")
        numpy.copyto(self.array(call.result, self.taken), value, casting="same_kind")


class Call:
    def __init__(self, routine):
        if not select.select([0], [], [], IDLE_S)[0]:
            raise Gone
        head = read(64)
        if head[:8] != CALL:
            raise EOFError("what is told is no call")
        self.key = head[8:32]
        client, sequence, self.epoch, flags, self.in_bytes, self.out_bytes, count = struct.unpack("<7Q", head[8:])
        if count != len(routine.formals):
            raise EOFError("a call of another routine")
        self.name = f"{client}-{sequence}"
        self.files = []
        self.places = [Place(formal) for formal in routine.formals]
        self.small = bool(flags & RESULT_SMALL)
        if flags & ARGUMENTS_SMALL:
            self.given = bytearray(read(self.in_bytes))
        else:
            self.given = self.map(os.path.join(sys.argv[1], self.name), os.O_RDONLY, mmap.MAP_PRIVATE, self.in_bytes)
        if self.small:
            self.result = bytearray(self.out_bytes)
        else:
            made = os.O_RDWR | os.O_CREAT | os.O_EXCL
            self.result = self.map(f"{self.name}.{self.epoch}", made, mmap.MAP_SHARED, self.out_bytes)

    @staticmethod
    def map(path, how, shared, length):
        fd = os.open(path, how | os.O_CLOEXEC, 0o600)
        try:
            if how & os.O_CREAT:
                os.posix_fallocate(fd, 0, length)
            return mmap.mmap(fd, length, flags=shared)
        finally:
            os.close(fd)

    def compute(self, routine):
        given = [place.argument(number, self) for number, place in enumerate(self.places) if place.formal.role == "taken"]
        back = routine.function(*given)
        wanted = [place for place in self.places if place.formal.role == "returned"]
        if len(wanted) == 1 and not isinstance(back, tuple):
            back = (back,)
        if len(wanted) != len(back if back is not None else ()):
            names = ", ".join(place.formal.name for place in wanted)
            raise ValueError(f"{routine.name} gives ({names}), and its function returned {type(back).__name__}")
        for place, value in zip(wanted, back or ()):
            place.put(value, self)

    def answer(self):
        write(DONE + self.key + struct.pack("<Q", self.out_bytes))
        if self.small:
            write(self.result)

    def fail(self, error):
        text = told(error).encode("utf-8", "replace")[:ERROR_BYTES].decode("utf-8", "ignore").encode()
        if not self.small:
            os.unlink(f"{self.name}.{self.epoch}")
        write(FAIL + self.key + struct.pack("<Q", len(text)) + text)


def told(error):
    """The name of an error, what it says, and where it was raised; this file is nobody's concern."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    here = os.path.dirname(__file__) + os.sep
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if frame.filename.startswith(here)][-OWN_FRAMES:]
    own += [frame for frame in frames[-1:] if frame not in own]
    try:
        said = str(error)
    except Exception:
        said = "it cannot be told"
    lines = [name, said]
    for frame in own:
        lines.append(f"  {os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}".rstrip(": "))
    return "\n".join(lines)


def serve(function):
    """Until no more calls come."""
    routine = function.__kumiko__
    while True:
        try:
            call = Call(routine)
        except Gone:
            return
        try:
            call.compute(routine)
        except BaseException as error:
            traceback.print_exc()
            call.fail(error)
        else:
            sys.stdout.flush()
            call.answer()
        for path in call.files:
            path.unlink(missing_ok=True)
        del call


# What the routine prints is no word of ours.
say = os.dup(1)
os.dup2(2, 1)

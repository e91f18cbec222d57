"""A program of a routine in Python: it is told calls, computes them, and answers (spec/rpc P60 to P65), as programs of C do (runtime.c).
Beside it lie the module `kumiko`, which declares, and the routine's own, and maybe the checkpoint library. Not here: sections, which no such
routine has."""

import contextlib
import errno
import math
import mmap
import os
import pathlib
import select
import shutil
import stat
import struct
import sys
import traceback

import kumiko

CALL, DONE, FAIL = b"kkmcall1", b"kkmdone1", b"kkmfail1"
BACK, SAID = b"kkmback1", b"kkmsaid1"
LIBRARY = "libkumikockpt.so"
NONE = 2**64 - 1
ARGUMENTS_SMALL, RESULT_SMALL = 1, 2
HEAD_BYTES = 16
# Of an error's text, which the site takes at most (4,096), names and numbers apart.
ERROR_BYTES = 4000
# Of a traceback the last frames of the routine's own files are told, and where it was raised.
OWN_FRAMES = 3
# No call for so long: its site does not come back.
IDLE_S = 600
# To a function of the caller's, and back.
CALLBACK_BYTES = 1 << 20
# sysexits.h.
EX_TEMPFAIL = 75


class Gone(Exception):
    """Nobody tells calls any more."""


@contextlib.contextmanager
def room():
    """Where a call's own files are written: with no room for them this process ends, as a C one does, and the call is tried again (*no_space*)."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        traceback.print_exc()
        os._exit(EX_TEMPFAIL)


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
        self.paths, self.list = [], None

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
        if formal.kind == "callback":
            return Asker(formal, number, call)
        if formal.kind == "texts":
            flat = [None] * math.prod(self.shape)
            if self.given != NONE:
                flat = texts(memoryview(call.given)[self.given : self.given + self.bytes], math.prod(self.shape))
            self.list = nested(flat, self.shape)
            return self.list
        if formal.kind == "files":
            return nested(self.files(number, call), self.shape)
        length = int.from_bytes(head[:8], "little")
        if formal.kind == "text":
            if self.given == NONE:
                return None
            return bytes(call.given[self.given : self.given + length]).decode("utf-8", "surrogateescape")
        content = memoryview(call.given)[self.given : self.given + length] if self.given != NONE else None
        return self.file(call, number, content)

    def file(self, call, name, content):
        """One of the call's own, with what goes in."""
        path = pathlib.Path.cwd() / f"{call.name}.{call.epoch}.file{name}"
        path.unlink(missing_ok=True)
        self.paths.append(path)
        if content is not None:
            with open(path, "xb") as file:
                file.write(content)
        return path

    def files(self, number, call):
        count = math.prod(self.shape)
        contents = [None] * count
        if self.given != NONE:
            packed, end = memoryview(call.given)[self.given : self.given + self.bytes], 8 * count
            for index, length in enumerate(struct.unpack_from(f"<{count}Q", packed)):
                if length > self.bytes - end:
                    raise EOFError("a file that is not there")
                contents[index] = packed[end : end + length]
                end += length
        return [self.file(call, f"{number}.{index}", content) for index, content in enumerate(contents, 1)]

    def tail(self, result, at):
        """What comes back with its own length, in the result from there on; how many bytes that are."""
        if self.formal.kind == "texts":
            packed = packed_texts(flat(self.list, self.shape, self.formal.name))
            written(result, at, packed)
            return len(packed)
        if self.formal.kind == "file":
            return copied(self.paths[0], result, at)
        lengths, end = [], at + 8 * len(self.paths)
        for path in self.paths:
            lengths.append(copied(path, result, end))
            end += lengths[-1]
        written(result, at, struct.pack(f"<{len(lengths)}Q", *lengths))
        return end - at

    def put(self, value, call):
        """What the function returned for it."""
        if self.formal.kind == "texts":
            self.list = [value] if self.shape == (1,) and isinstance(value, (str, bytes, type(None))) else value
            return
        import numpy

        value = numpy.asarray(value)
        if value.shape != self.shape and not (self.shape == (1,) and value.shape == ()):
            raise ValueError(f"{self.formal.name}: its shape is {value.shape}, and the routine gives {self.shape}")
        numpy.copyto(self.array(call.result, self.taken), value, casting="same_kind")


def texts(packed, count):
    """So many texts: their lengths, then each with a zero behind it (spec/idl I42)."""
    end, found = 8 * count, []
    if end > len(packed):
        raise EOFError("lengths of texts that are not there")
    for size in struct.unpack_from(f"<{count}Q", packed):
        if size == NONE:
            found.append(None)
            continue
        if size >= len(packed) - end:
            raise EOFError("a text that is not there")
        found.append(bytes(packed[end : end + size]).decode("utf-8", "surrogateescape"))
        end += size + 1
    return found


def packed_texts(texts):
    texts = [text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text for text in texts]
    if any(b"\0" in text for text in texts if text is not None):
        raise ValueError("a text has no zero byte")
    lengths = struct.pack(f"<{len(texts)}Q", *(NONE if text is None else len(text) for text in texts))
    return lengths + b"".join(text + b"\0" for text in texts if text is not None)


def flat(value, shape, name):
    """Lists in lists, which are to have this shape, as one."""
    if not shape:
        if not isinstance(value, (str, bytes, type(None))):
            raise TypeError(f"{name}: it has str, bytes or None, and {type(value).__name__} is there")
        return [value]
    if isinstance(value, (str, bytes, type(None))) or len(value) != shape[0]:
        raise ValueError(f"{name}: it is to be a list of {shape[0]}")
    return [text for part in value for text in flat(part, shape[1:], name)]


def nested(flat, shape):
    """Lists in lists, of this shape."""
    if len(shape) == 1:
        return flat
    inner = len(flat) // shape[0] if shape[0] else 0
    return [nested(flat[inner * number : inner * (number + 1)], shape[1:]) for number in range(shape[0])]


def shape_of(value, dimensions):
    """Of lists in lists, by the first of each."""
    shape = []
    for _ in range(dimensions):
        if isinstance(value, (str, bytes, type(None))):
            break
        shape.append(len(value))
        value = value[0] if len(value) else None
    return tuple(shape)


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
        self.places = [Place(formal) for formal in routine.formals]
        self.small = bool(flags & RESULT_SMALL)
        self.asked = numpy_asked() if any(formal.kind == "callback" for formal in routine.formals) else None
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
        kumiko.checkpoint._begin(f"{self.name}.checkpoint")
        try:
            if self.asked is not None:
                # One that goes on where it was goes on with its callbacks too.
                kumiko.checkpoint.state("kumiko.callbacks", self.asked)
            self.run(routine)
            with room():
                self.end = self.take_tail()
        finally:
            kumiko.checkpoint._end()

    def run(self, routine):
        with room():
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

    def take_tail(self):
        """Files and texts that come back go behind the rest of the result; of a file that is not there, nothing. Gives the result's end."""
        end = self.out_bytes
        for place in self.places:
            if place.formal.kind in ("file", "files", "texts") and place.taken != NONE:
                at = -(-end // 64) * 64
                result = f"{self.name}.{self.epoch}"
                end = at + place.tail(result, at)
                os.truncate(result, end)
                self.result[place.taken : place.taken + 8] = struct.pack("<Q", end - at)
        return end

    def answer(self):
        if not self.small:
            # Where this folder is another host's (FUSE, NFS), what was mapped gets there by a close, and not before; or here it is said why not.
            with room():
                os.close(os.open(f"{self.name}.{self.epoch}", os.O_WRONLY | os.O_CLOEXEC))
        write(DONE + self.key + struct.pack("<Q", self.end))
        if self.small:
            write(self.result)

    def fail(self, error):
        text = told(error).encode("utf-8", "replace")[:ERROR_BYTES].decode("utf-8", "ignore").encode()
        if not self.small:
            os.unlink(f"{self.name}.{self.epoch}")
        write(FAIL + self.key + struct.pack("<Q", len(text)) + text)


def copied(path, result, at):
    """A file into the result, from there on; how many bytes that are."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        length = 0
    else:
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ValueError(f"{path.name}: what comes back is a file")
            with open(result, "r+b") as to:
                to.seek(at)
                shutil.copyfileobj(file, to)
                length = to.tell() - at
    return length


def written(result, at, data):
    with open(result, "r+b") as to:
        to.seek(at)
        to.write(data)


def numpy_asked():
    import numpy

    return numpy.zeros(1, "uint64")


class Asker:
    """A function of the caller's."""

    def __init__(self, formal, number, call):
        self.formal, self.number, self.call = formal, number, call

    def __call__(self, *given):
        import numpy

        name = self.formal.name
        taken = [formal for formal in self.formal.formals if formal.role == "taken"]
        if len(given) != len(taken):
            raise TypeError(f"{name} takes {len(taken)} arguments, and {len(given)} were given")
        values = {
            formal.name: value if formal.kind in ("text", "texts", "file") else numpy.asarray(value, formal.dtype)
            for formal, value in zip(taken, given)
        }
        sizes = self.sizes(values)
        heads, parts, back, out_bytes, is_long = [], b"", [], 0, False
        for formal in self.formal.formals:
            if formal.kind == "text":
                text = values[formal.name]
                if not isinstance(text, (str, type(None))):
                    raise TypeError(f"{name}, {formal.name}: it is a text or None, and {type(text).__name__} is given")
                text = None if text is None else text.encode("utf-8", "surrogateescape")
                heads.append(struct.pack("<Q", NONE if text is None else len(text)).ljust(HEAD_BYTES, b"\0"))
                if text is not None:
                    if 0 in text:
                        raise ValueError(f"{name}, {formal.name}: a text has no zero byte")
                    parts += bytes(-len(parts) % 64) + text + b"\0"
                continue
            dtype = numpy.dtype(formal.dtype).newbyteorder("<")
            if formal.kind == "number":
                value = sizes[formal.name] if formal.role == "told" else values[formal.name]
                heads.append(numpy.asarray(value, dtype).tobytes().ljust(HEAD_BYTES, b"\0"))
                continue
            shape = tuple(sizes[size] if size in sizes else int(size) for size in formal.sizes)
            if formal.kind in ("texts", "file"):
                own = b""
                if formal.kind == "file":
                    own = pathlib.Path(values[formal.name]).read_bytes()
                elif formal.mode != "OUT":
                    own = packed_texts(flat(values[formal.name], shape, f"{name}, {formal.name}"))
                heads.append(struct.pack("<Q", len(own)).ljust(HEAD_BYTES, b"\0"))
                if formal.mode != "OUT":
                    parts += bytes(-len(parts) % 64) + own
                if formal.mode != "IN":
                    at = -(-out_bytes // 64) * 64
                    back.append((formal, at, shape))
                    out_bytes, is_long = at + HEAD_BYTES, True
                continue
            heads.append(bytes(HEAD_BYTES))
            if formal.mode != "OUT":
                if values[formal.name].shape != shape:
                    raise ValueError(f"{name}, {formal.name}: its shape is {values[formal.name].shape}, and {shape} is said")
                parts += bytes(-len(parts) % 64) + numpy.ascontiguousarray(values[formal.name], dtype).tobytes()
            if formal.mode != "IN":
                at = -(-out_bytes // 64) * 64
                array = numpy.zeros(shape, dtype)
                back.append((formal, at, array))
                out_bytes = at + array.nbytes
        data = b"".join(heads)
        if parts:
            data += bytes(-len(data) % 64) + parts
        said = self.ask(data, out_bytes, is_long)
        results, end = [], out_bytes
        for formal, at, array in back:
            if formal.kind == "texts":
                end = -(-end // 64) * 64
                (length,) = struct.unpack_from("<Q", said, at)
                if length > len(said) - end:
                    raise EOFError("texts that are not there")
                found = nested(texts(memoryview(said)[end : end + length], math.prod(array)), array)
                end += length
                if formal.role == "returned":
                    results.append(found[0] if formal.sizes == ("1",) else found)
                else:
                    given[taken.index(formal)][:] = found
                continue
            array[...] = numpy.ndarray(array.shape, array.dtype, said, at) if array.size else array
            if formal.role == "returned":
                results.append(array[0].item() if formal.sizes == ("1",) else array)
            else:
                numpy.copyto(given[taken.index(formal)], array, casting="same_kind")
        return tuple(results) if len(results) > 1 else results[0] if results else None

    def sizes(self, values):
        """What arrays tell, and whole numbers that are given."""
        sizes = {}
        for formal in self.formal.formals:
            if formal.role == "taken" and formal.kind == "number" and values[formal.name].dtype.kind in "iu":
                sizes[formal.name] = int(values[formal.name])
            if formal.role == "taken" and formal.mode != "OUT" and formal.kind in ("array", "texts"):
                shape = values[formal.name].shape if formal.kind == "array" else shape_of(values[formal.name], len(formal.sizes))
                if len(shape) != len(formal.sizes):
                    raise ValueError(f"{self.formal.name}, {formal.name}: it has {len(formal.sizes)} dimensions")
                for size, length in zip(formal.sizes, shape):
                    if not size.isdigit():
                        sizes.setdefault(size, length)
        return sizes

    def ask(self, data, out_bytes, is_long):
        if max(len(data), out_bytes) > CALLBACK_BYTES:
            raise ValueError(f"{self.formal.name}: at most {CALLBACK_BYTES} bytes go either way")
        self.call.asked[0] += 1
        number = int(self.call.asked[0])
        write(BACK + self.call.key + struct.pack("<3Q", number, self.number, len(data)) + data)
        try:
            head = read(48)
        except Gone:
            # The call is not wanted any more.
            os._exit(0)
        said, length = struct.unpack("<2Q", head[32:])
        fits = out_bytes <= length <= CALLBACK_BYTES if is_long else length == out_bytes
        if head[:8] != SAID or said != number or not fits:
            raise EOFError("an answer to another callback")
        return read(length)


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
    load_library()
    while True:
        try:
            with room():
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
        for path in (path for place in call.places for path in place.paths):
            path.unlink(missing_ok=True)
        del call


def load_library():
    """The checkpoint library, if it is in the program: a loader wants a file."""
    try:
        loader = __spec__.loader
        data = loader.get_data(os.path.join(loader.archive, LIBRARY))
    except OSError:
        return
    path = pathlib.Path.cwd() / LIBRARY
    path.write_bytes(data)
    kumiko.checkpoint._load(path)
    path.unlink()


# What the routine prints is no word of ours.
say = os.dup(1)
os.dup2(2, 1)

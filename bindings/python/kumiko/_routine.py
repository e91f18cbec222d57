"""Routines written in Python: what a function takes and gives, from its annotations to a signature in Ninf IDL (spec/idl). A program of
such a routine has this file for its module `kumiko`, so it needs nothing of the rest. Not here: the program (crates/idl, stub/python)."""

import collections.abc
import ctypes
import inspect
import io
import os
import re
import typing

try:
    import numpy
except ImportError:
    numpy = None

__all__ = ["Array", "InOut", "Out", "checkpoint", "routine"]

IN, OUT, INOUT = "IN", "OUT", "INOUT"

# Words of the IDL by numpy's names (spec/idl I12).
_WORDS = {
    "int8": "char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long",
    "uint64": "unsigned long",
    "float32": "float",
    "float64": "double",
    "complex64": "scomplex",
    "complex128": "dcomplex",
}
_SCALARS = {int: "int64", float: "float64", complex: "complex128"}
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class _Shape:
    """What stands beside the type of an array's elements: sizes as in IDL, and which way it goes."""

    def __init__(self, mode, sizes):
        self.mode, self.sizes = mode, sizes


class _Arrays(type):
    def __getitem__(cls, words):
        dtype, *sizes = words if isinstance(words, tuple) else (words,)
        is_path = isinstance(dtype, type) and issubclass(dtype, os.PathLike)
        if (is_path and (sizes or cls._mode != IN)) or (dtype is str and sizes):
            return typing.Annotated[dtype, _Shape(cls._mode, tuple(str(size) for size in sizes))]
        if numpy is None:
            raise TypeError("arrays need numpy, which this Python does not have")
        if not sizes:
            raise TypeError(f'{cls.__name__}[{dtype!r}] has no sizes: write {cls.__name__}["float64", "n"]')
        return typing.Annotated[numpy.dtype(dtype).type, _Shape(cls._mode, tuple(str(size) for size in sizes))]


class Array(metaclass=_Arrays):
    """An array, `Array["float64", "n", "n"]`: what goes in, and what a function returns. A size is a number, a name, or an expression
    of names; the same name is the same size everywhere. A name that no argument has is told by the arrays. `Array[str, "n"]` is a list of
    texts, some of which may be None, `Array[pathlib.Path, "n"]` a list of files."""

    _mode = IN


class InOut(metaclass=_Arrays):
    """An array that goes in, is changed in its place, and comes back; or a file, `InOut[pathlib.Path]`; or a list of texts or of files."""

    _mode = INOUT


class Out(metaclass=_Arrays):
    """An array of zeros that the function fills in its place, and that comes back: no copy of it is made. Or a file that it writes,
    `Out[pathlib.Path]`; of one that it does not, nothing comes back. Or a list, `Out[str, "n"]` of None at first, or of files."""

    _mode = OUT


class Formal:
    """One argument or one part of a result. `role`: told (by an array, so the function does not take it), taken or returned; `kind`:
    number, array, text, texts, file, files or callback, which has formals of its own; `dtype`: numpy's name; `plain`: Python's own number."""

    def __init__(self, role, name, mode, kind, dtype=None, sizes=(), plain=False, formals=()):
        self.role, self.name, self.mode, self.kind = role, name, mode, kind
        self.dtype, self.sizes, self.plain, self.formals = dtype, sizes, plain, formals

    def idl(self):
        if self.kind in ("text", "file"):
            return f"{self.mode} {'string' if self.kind == 'text' else 'filename'} {self.name}"
        if self.kind in ("texts", "files"):
            word = "string" if self.kind == "texts" else "filename"
            return f"{self.mode} {word} {self.name}" + "".join(f"[{size}]" for size in self.sizes)
        if self.kind == "callback":
            return f"{self.name}({', '.join(formal.idl() for formal in self.formals)})"
        return f"{self.mode} {_WORDS[self.dtype]} {self.name}" + "".join(f"[{size}]" for size in self.sizes)


class Routine:
    """A function and its formals in their order: sizes that arrays tell, what it takes, what it returns."""

    def __init__(self, function, name, module, calc_order):
        self.function, self.name, self.module, self.calc_order = function, name, module, calc_order
        self.documentation = inspect.cleandoc(function.__doc__ or "")
        self.formals = _formals(function)

    def idl(self, module):
        formals = ", ".join(formal.idl() for formal in self.formals)
        lines = [f"Module {self.module or module};", f"Define {self.name}({formals})"]
        if self.documentation:
            text = self.documentation.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'"{text}"')
        if self.calc_order:
            lines.append(f"CalcOrder {self.calc_order}")
        return "\n".join(lines) + "\n{}\n"


def routine(function=None, /, *, name=None, module=None, calc_order=None):
    """Says that a site can offer this function (`kumiko rpc gen FILE.py`). It stays a function as any other.

    Its arguments are annotated: int, float, complex, numpy's numbers, str, pathlib.Path, `Array`, `InOut`, `Out`,
    `Annotated[numpy.typing.NDArray[numpy.float64], "n", "n"]`, or, for a function of its caller's, `Callable[[...], ...]` of such; what it
    returns likewise, of several values a NamedTuple or a tuple.
    Its documentation is the routine's. `module` is the file's name if it is not said; `calc_order` is how much it computes, as in IDL."""

    def declare(function):
        function.__kumiko__ = Routine(function, name or function.__name__, module, calc_order)
        return function

    return declare if function is None else declare(function)


def _formals(function):
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        what = f"{function.__qualname__}, {parameter.name}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{what}: a routine takes as many arguments as it says")
        if parameter.name not in hints:
            raise TypeError(f"{what}: it has no annotation, so nobody knows what it takes")
        parameters.append(_formal(what, "taken", parameter.name, hints[parameter.name]))
    returns = [
        _formal(f"{function.__qualname__}, {name}", "returned", name, hint)
        for name, hint in _returned(hints.get("return", type(None)))
    ]
    return _with_told(function.__qualname__, parameters, returns)


def _with_told(what, parameters, returns):
    """With the sizes that arrays tell, before them."""
    taken = {formal.name for formal in parameters + returns}
    if len(taken) < len(parameters) + len(returns):
        raise TypeError(f"{what}: a part of what it returns has the name of an argument")
    told = []
    for formal in parameters + returns:
        for name in (name for size in formal.sizes for name in _NAME.findall(size)):
            if name not in taken and all(one.name != name for one in told):
                told.append(Formal("told", name, IN, "number", "int64", plain=True))
    for one in told:
        if not any(one.name in formal.sizes for formal in parameters if formal.mode != OUT):
            raise TypeError(f"{what}: no array that goes in tells {one.name}, and it is no argument")
    return told + parameters + returns


def _callback(what, name, hint):
    """A function of the caller's, from `Callable[[...], ...]`: its arguments are `argument_1` and on, what it gives is as of a routine."""
    given, back = typing.get_args(hint) or (..., None)
    if given is ...:
        raise TypeError(f"{what}: what the function takes has to be said, e.g. Callable[[float], float]")
    parameters = [_formal(what, "taken", f"argument_{number}", one) for number, one in enumerate(given, 1)]
    returns = [_formal(what, "returned", part, one) for part, one in _returned(back)]
    formals = _with_told(what, parameters, returns)
    for formal in formals:
        if formal.kind not in ("number", "array", "text", "texts") and (formal.kind != "file" or formal.mode != IN):
            raise TypeError(f"{what}: a function of the caller's takes numbers, arrays, texts and files, and gives numbers, arrays and texts")
        if not all(size.isdigit() or _NAME.fullmatch(size) for size in formal.sizes):
            raise TypeError(f"{what}: sizes of what goes to a function of the caller's, or comes back, are numbers and names")
    return Formal("taken", name, IN, "callback", formals=formals)


def _returned(hint):
    """Names and annotations of what comes back."""
    if hint is type(None):
        return []
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        fields = typing.get_type_hints(hint, include_extras=True)
        return [(name, fields[name]) for name in hint._fields]
    if typing.get_origin(hint) is tuple:
        return [(f"result_{number}", one) for number, one in enumerate(typing.get_args(hint), 1)]
    return [("result", hint)]


def _formal(what, role, name, hint):
    shape, element, returned = None, hint, role == "returned"
    if typing.get_origin(hint) is typing.Annotated:
        element, *beside = typing.get_args(hint)
        shapes = [one for one in beside if isinstance(one, _Shape)]
        sizes = tuple(str(one) for one in beside if isinstance(one, (str, int)))
        shape = shapes[0] if shapes else _Shape(IN, sizes) if sizes else None
    if typing.get_origin(element) is collections.abc.Callable and not returned and shape is None:
        return _callback(what, name, element)
    arguments = typing.get_args(element)
    if numpy is not None and typing.get_origin(element) is numpy.ndarray and len(arguments) == 2:
        element = (typing.get_args(arguments[1]) or (None,))[0]
        if shape is None:
            raise TypeError(f'{what}: an array has sizes, e.g. kumiko.Array["float64", "n"]')
    plain = element in _SCALARS
    dtype = _SCALARS.get(element)
    if dtype is None and numpy is not None and isinstance(element, type) and issubclass(element, numpy.generic):
        dtype = numpy.dtype(element).name
    if dtype in _WORDS and shape is not None:
        if returned and shape.mode != IN:
            raise TypeError(f"{what}: what is returned is an Array")
        return Formal(role, name, OUT if returned else shape.mode, "array", dtype, shape.sizes)
    if dtype in _WORDS and returned:
        # One number goes back as an array of one (spec/idl I14).
        return Formal(role, name, OUT, "array", dtype, ("1",))
    if dtype in _WORDS:
        return Formal(role, name, IN, "number", dtype, plain=plain)
    if element is str and shape is not None:
        if returned and shape.mode != IN:
            raise TypeError(f"{what}: what is returned is an Array")
        return Formal(role, name, OUT if returned else shape.mode, "texts", sizes=shape.sizes)
    if element is str:
        return Formal(role, name, OUT, "texts", sizes=("1",)) if returned else Formal(role, name, IN, "text")
    if isinstance(element, type) and issubclass(element, os.PathLike) and not returned:
        kind = "files" if shape and shape.sizes else "file"
        return Formal(role, name, shape.mode if shape else IN, kind, sizes=shape.sizes if shape else ())
    shown = element.__name__ if isinstance(element, type) else element
    raise TypeError(f"{what}: no routine {'returns' if returned else 'takes'} {shown}")


class checkpoint:
    """Where a call can be resumed from, if its process dies: `kumiko rpc gen --checkpoint` puts the library into the program, and without
    it all of this does nothing. Name each array that says how far it is, once, and open by `checkpoint.open` files that are to go on too; ask
    whether it was resumed, which fills them; then mark safe points, at which they are as a later process is to find them.

        done = numpy.zeros(1, "int64")
        checkpoint.state("done", done)
        checkpoint.state("x", x)
        checkpoint.resumed()
        while done[0] < steps:
            checkpoint.point()
            ...
    """

    _library = None
    _named = []
    _files = []
    _was_asked = False

    @staticmethod
    def state(name, array):
        """Names an array (or what else has the buffer protocol), which is changed in its place. It is kept until the call is over."""
        memory = memoryview(array)
        if memory.readonly or not memory.c_contiguous:
            raise ValueError(f"{name}: a state is memory in one piece that can be written to, in C order")
        if checkpoint._library is None:
            return
        at = ctypes.c_char.from_buffer(array) if memory.nbytes else None
        address = ctypes.c_void_p(None if at is None else ctypes.addressof(at))
        if checkpoint._library.kumiko_ckpt_state(name.encode(), address, ctypes.c_size_t(memory.nbytes)) != 0:
            raise ValueError(f"{name}: it cannot be a state: of this name or memory there is one, or it is too late")
        checkpoint._named.append(at)

    @staticmethod
    def open(name, path, mode="rb", **more):
        """Opens a file, as open() does, that goes on as it was at the checkpoint: as long, and at the same position. Opened under the same
        name each time, before it is asked whether it was resumed; read and written after that. What is overwritten and does not stand
        behind the end is not undone. What is read is bytes."""
        if "b" not in mode and ("r" in mode or "+" in mode):
            raise ValueError(f"{name}: where a text is read is not known in bytes: open it with 'b' in its mode")
        if checkpoint._library is None:
            return io.open(path, mode, **more)

        def opener(path, flags):
            file = checkpoint._library.kumiko_ckpt_open(name.encode(), os.fsencode(path), flags)
            if file < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
            return file

        file = io.open(path, mode, opener=opener, **more)
        checkpoint._files.append(file)
        return file

    @staticmethod
    def resumed():
        """The number of the checkpoint that it goes on from, which is then in the arrays; 0: it begins."""
        if checkpoint._library is None:
            return 0
        number = checkpoint._library.kumiko_ckpt_resumed()
        if not checkpoint._was_asked:
            checkpoint._was_asked = True
            for file in (one for one in checkpoint._files if not one.closed):
                # It believes to be where it was opened.
                file.seek(os.lseek(file.fileno(), 0, os.SEEK_CUR))
        return number

    @staticmethod
    def point():
        """A safe point. As often as pays, it becomes a checkpoint."""
        if checkpoint._library is None:
            return
        checkpoint.resumed()
        read_ahead = []
        for file in checkpoint._files:
            if not file.closed and file.writable():
                file.flush()
            if not file.closed and file.readable():
                at, ahead = file.tell(), os.lseek(file.fileno(), 0, os.SEEK_CUR)
                os.lseek(file.fileno(), at, os.SEEK_SET)
                read_ahead.append((file.fileno(), ahead))
        checkpoint._library.kumiko_ckpt_point()
        for file, ahead in read_ahead:
            os.lseek(file, ahead, os.SEEK_SET)

    @staticmethod
    def every(seconds):
        """At most so often, instead of as often as pays; 0: at each safe point, which then waits for the disk."""
        if checkpoint._library is not None:
            checkpoint._library.kumiko_ckpt_every(ctypes.c_double(seconds))

    @staticmethod
    def _load(path):
        library = ctypes.CDLL(path, use_errno=True)
        library.kumiko_ckpt_resumed.restype = ctypes.c_ulong
        checkpoint._library = library

    @staticmethod
    def _begin(folder):
        if checkpoint._library is not None:
            checkpoint._library.kumiko_ckpt_begin(folder.encode())

    @staticmethod
    def _end():
        if checkpoint._library is not None:
            checkpoint._library.kumiko_ckpt_end()
            checkpoint._named.clear()
            checkpoint._files.clear()
            checkpoint._was_asked = False

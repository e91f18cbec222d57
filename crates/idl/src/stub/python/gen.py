"""Makes programs of the routines in a file of Python; `kumiko rpc gen` runs this with FILE and FOLDER (or nothing: only describe), maybe
followed by the checkpoint library that goes into them, and has set SOURCES. Prints JSON: of each its signature, and where its program lies, not yet under its name."""

import importlib.util
import json
import os
import pathlib
import sys
import types
import zipfile

# Programs of the same sources are the same bytes.
DATE = (1980, 1, 1, 0, 0, 0)
INSTALLED = {"site-packages", "dist-packages"}


def load(path):
    """The file as a module, which finds its neighbours."""
    declare = types.ModuleType("kumiko")
    sys.modules["kumiko"] = declare
    exec(compile(SOURCES["kumiko.py"], "kumiko.py", "exec"), declare.__dict__)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def neighbours(path):
    """Files that it imported from beside it; they go along. What was installed, be it there too, is the site's to have."""
    root, found = path.parent, {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py"):
            file = pathlib.Path(file).resolve()
            if file.is_relative_to(root) and not INSTALLED.intersection(file.parts):
                found[str(file.relative_to(root))] = file.read_text()
    return found


def main(path, folder=None, library=None):
    path = pathlib.Path(path).resolve()
    if not path.stem.isidentifier() or path.stem in ("kumiko", "kumiko_serve", "__main__"):
        raise SystemExit(f"{path}: a module of this name cannot be imported by its program")
    module = load(path)
    routines = {
        name: one.__kumiko__
        for name, one in vars(module).items()
        if isinstance(one, types.FunctionType) and hasattr(one, "__kumiko__") and one.__module__ == path.stem
    }
    files = neighbours(path)
    made = []
    for function, routine in routines.items():
        one = {"signature": routine.idl(path.stem)}
        if folder is not None:
            name = f"{routine.module or path.stem}.{routine.name}"
            new = pathlib.Path(folder).resolve() / (name + ".new")
            start = f"import kumiko_serve, {path.stem}\n\nkumiko_serve.serve({path.stem}.{function})\n"
            with open(new, "wb") as program:
                program.write(f"#!{sys.executable} -IB\n".encode())
                with zipfile.ZipFile(program, "w") as archive:
                    for inside, text in {**files, **SOURCES, "__main__.py": start}.items():
                        archive.writestr(zipfile.ZipInfo(inside, DATE), text)
                    if library is not None:
                        # As it is: a site finds the library's mark in it.
                        archive.writestr(zipfile.ZipInfo("libkumikockpt.so", DATE), pathlib.Path(library).read_bytes())
            new.chmod(0o700)
            one["program"] = str(new)
        made.append(one)
    json.dump(made, say)


say = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
main(*sys.argv[1:])

"""Calls the routines of listed.py."""

import pathlib

import kumiko

print(kumiko.rpc("listed/shout")(["to", None], [None, "b"]))
for name in "ab":
    pathlib.Path(name).write_text(name)
    pathlib.Path("log" + name).write_text("log ")
print(kumiko.rpc("listed/share")(["a", "b"], ["loga", "logb"], ["new1", "new2"]))
print([pathlib.Path(name).read_text() for name in ("loga", "logb", "new1", "new2")])
print(kumiko.rpc("listed/asks")(["to", "be"], "a", lambda k, words, file: ([word + file.read_text() for word in words], "one")))
try:
    kumiko.rpc("listed/wrong")(["to"])
except Exception as error:
    print(str(error).splitlines()[0])

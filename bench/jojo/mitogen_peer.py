"""What mitogen takes to have a Python ready over ssh, and for a call: a peer of `./x bench jojo`.

Arguments: ready, calls or rates, an ssh command, how many rounds. Prints lines as silf.jojo.bench.Main does.
"""
import logging
import os
import sys
import time

try:
    import mitogen.core
    import mitogen.utils
except ImportError:
    print("missing\tmitogen\tpython3-mitogen is not installed")
    sys.exit(0)

what, ssh, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
logging.disable(logging.CRITICAL)


def connect(router):
    return router.ssh(hostname="far", ssh_path=ssh, python_path=["/usr/bin/python3"], check_host_keys="enforce")


@mitogen.utils.run_with_router
def main(router):
    if what == "ready":
        for i in range(rounds + 1):
            begun = time.monotonic()
            context = connect(router)
            context.call(os.getpid)
            if i:
                print("sample\tmitogen ready\tseconds\t%.9g" % (time.monotonic() - begun), flush=True)
            context.shutdown(wait=True)
        return
    context = connect(router)
    if what == "rates":
        for i in range(rounds + 1):
            begun = time.monotonic()
            for receiver in [context.call_async(os.getpid) for _ in range(2000)]:
                receiver.get().unpickle()
            if i:
                print("sample\tmitogen pipelined calls over ssh\tper_second\t%.9g" % (2000 / (time.monotonic() - begun)), flush=True)
        return
    for i in range(500 + rounds):
        begun = time.monotonic()
        context.call(os.getpid)
        if i >= 500:
            print("sample\tmitogen call over ssh\tseconds\t%.9g" % (time.monotonic() - begun))

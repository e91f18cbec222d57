"""As call.py, of another system: pool, ray, dask or parsl. One worker; data as the system moves them."""

import os
import sys
import tempfile
import time

import numpy


def nothing():
    return None


def ends(x, count):
    return x[:count]


def pool():
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(1).submit, lambda future: future.result()


def ray():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    remote = {function: ray.remote(function) for function in (nothing, ends)}
    return lambda function, *given: remote[function].remote(*given), ray.get


def dask():
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
    client = Client(cluster)
    return lambda function, *given: client.submit(function, *given, pure=False), lambda future: future.result()


def parsl():
    import parsl
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    from parsl.providers import LocalProvider
    from parsl.usage_tracking.levels import DISABLED

    one = LocalProvider(init_blocks=1, max_blocks=1)
    executor = HighThroughputExecutor(address="127.0.0.1", max_workers_per_node=1, provider=one)
    place = tempfile.mkdtemp()
    parsl.load(Config(executors=[executor], run_dir=place, usage_tracking=DISABLED, initialize_logging=False))
    apps = {function: parsl.python_app(function) for function in (nothing, ends)}
    return lambda function, *given: apps[function](*given), lambda future: future.result()


def main():
    submit, result = {"pool": pool, "ray": ray, "dask": dask, "parsl": parsl}[sys.argv[1]]()
    x = numpy.zeros(1 << 20)
    result(submit(nothing))
    for line in sys.stdin:
        word, count = line.split()
        count, took = int(count), []
        if word == "pipelined":
            begun = time.perf_counter()
            for future in [submit(nothing) for _ in range(count)]:
                result(future)
            rate = count / (time.perf_counter() - begun)
            print(rate, rate, flush=True)
            continue
        for _ in range(count):
            begun = time.perf_counter()
            if word == "big":
                result(submit(ends, x, 12 * 128))
            else:
                result(submit(nothing))
            took.append(time.perf_counter() - begun)
        took.sort()
        print(sum(took) / count, took[count * 99 // 100], flush=True)


if __name__ == "__main__":
    main()

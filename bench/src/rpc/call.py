"""As call.c, in Python."""

import sys
import time

import kumiko
import numpy

site = kumiko.connect(sys.argv[1])
null, big = site.rpc("bench/null"), site.rpc("bench/big")
x = numpy.zeros(1 << 20)
for line in sys.stdin:
    word, count = line.split()
    count, took = int(count), []
    if word == "pipelined":
        begun = time.perf_counter()
        for future in [null.submit() for _ in range(count)]:
            future.result()
        rate = count / (time.perf_counter() - begun)
        print(rate, rate, flush=True)
        continue
    for _ in range(count):
        begun = time.perf_counter()
        if word == "big":
            big(x, 12 * 128)
        else:
            null()
        took.append(time.perf_counter() - begun)
    took.sort()
    print(sum(took) / count, took[count * 99 // 100], flush=True)

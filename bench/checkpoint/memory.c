/* Memory of which some pages are written to, and what checkpoints of it take. What fork() takes of the same process beside them:
 * a copy on writing is the other way to a short stop.
 * Usage: memory MIB SHARE PARTS, with a folder in KUMIKO_CHECKPOINT. A line of three times for each checkpoint, the first one
 * of which is whole: standing still, in all with its writing, and fork(); in seconds. PARTS of `ahead`: the first one alone, while the
 * program writes to a page each millisecond; standing still is then the longest safe point until it is made. */
#include <kumiko/kumiko_ckpt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* How long this process stands still for it; its child does nothing. */
static double forked(void) {
    double began = now();
    pid_t child = fork();
    if (child == 0) _exit(0);
    double took = now() - began;
    if (child < 0 || waitpid(child, NULL, 0) != child) perror("fork"), exit(1);
    return took;
}

int main(int count, char **words) {
    if (count != 4) return fprintf(stderr, "usage: %s MIB SHARE PARTS\n", words[0]), 2;
    size_t bytes = strtoul(words[1], NULL, 10) << 20, pages = bytes / PAGE;
    size_t written = (size_t)((double)pages * atof(words[2]));
    int ahead = strcmp(words[3], "ahead") == 0;
    long parts = ahead ? 0 : atol(words[3]);
    char *memory = aligned_alloc(PAGE, bytes);
    if (!memory) return perror("memory"), 1;
    uint64_t seed = 1;
    for (size_t i = 0; i < bytes; i += sizeof seed) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        memcpy(memory + i, &seed, sizeof seed);
    }
    if (kumiko_ckpt_state("memory", memory, bytes)) return 1;
    if (ahead) {
        double fork_s = forked(), first = now(), longest = 0;
        kumiko_ckpt_every(0.001);
        for (size_t page = 0; kumiko_ckpt_frozen_s() == 0; page++) {
            memory[page % pages * PAGE] += 1;
            usleep(1000);
            double began = now();
            kumiko_ckpt_point();
            double took = now() - began;
            if (took > longest) longest = took;
        }
        printf("%.9f %.9f %.9f\n", longest, now() - first, fork_s);
        return 0;
    }
    kumiko_ckpt_every(0);
    for (long part = 0; part <= parts; part++) {
        for (size_t i = 0; part && i < written; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            memory[(seed >> 33) % pages * PAGE] += 1;
        }
        double fork_s = forked(), began = now();
        kumiko_ckpt_point();
        printf("%.9f %.9f %.9f\n", kumiko_ckpt_frozen_s(), now() - began, fork_s);
        fflush(stdout);
    }
    return 0;
}

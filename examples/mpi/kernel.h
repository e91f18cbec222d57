/* What the kernels have in common: their sizes, their random numbers, their clock, their last line, their safe points.
 * Not here: anything of a kernel's numerics. */
#ifndef KERNEL_H
#define KERNEL_H

#include <mpi.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

/* With -DCHECKPOINT (and libkumikockpt.a) a kernel of one rank that is started again goes on from its last checkpoint. Several ranks
 * would each go on from another iteration. */
#ifdef CHECKPOINT
#include <kumiko/kumiko_ckpt.h>
#define ONE_RANK 1
static unsigned long checkpoint; /* that it went on from */
#define name_state(name, memory, bytes) kumiko_ckpt_state(name, memory, bytes)
#define resumed() (checkpoint = kumiko_ckpt_resumed())
#define safe_point() kumiko_ckpt_point()
#else
#define ONE_RANK 0
#define checkpoint 0ul
#define name_state(name, memory, bytes) ((void)0)
#define resumed() ((void)0)
#define safe_point() ((void)0)
#endif

/* S (a moment), W (up to a second) or A (seconds of one rank), the first argument. */
static char class_of(int count, char **words) {
    const char *word = count > 1 ? words[1] : "S";
    if (strcmp(word, "S") != 0 && strcmp(word, "W") != 0 && strcmp(word, "A") != 0) {
        if (rank == 0) fprintf(stderr, "usage: %s [S|W|A]\n", words[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return word[0];
}

static char begin(int *count, char ***words) {
    MPI_Init(count, words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ONE_RANK && ranks > 1) {
        fprintf(stderr, "%s: made with -DCHECKPOINT: one rank, not %d\n", (*words)[0], ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return class_of(*count, *words);
}

/* Says how it went, at rank 0; the exit status is 0 if `good` there. */
static int end(const char *name, char class, double seconds, int good, const char *what) {
    double longest = 0;
    MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s class %c, %d ranks: %s, %.4f s, %s", name, class, ranks, good ? "right" : "WRONG", longest, what);
    if (rank == 0 && checkpoint) printf(", from checkpoint %lu", checkpoint);
    if (rank == 0) putchar('\n');
    MPI_Finalize();
    return good ? 0 : 1;
}

static inline void *room(size_t count, size_t size) {
    void *made = calloc(count ? count : 1, size);
    if (!made) {
        fprintf(stderr, "no memory for %zu times %zu bytes\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return made;
}

/* The generator of the NAS benchmarks' specification: x' = 5^13 x mod 2^46, as a fraction of 2^46. */
#define MULTIPLIER UINT64_C(1220703125)
#define MASK ((UINT64_C(1) << 46) - 1)

static inline uint64_t times(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b) & MASK; }

static inline double next(uint64_t *x) {
    *x = times(*x, MULTIPLIER);
    return (double)*x * 0x1p-46;
}

/* The state after `steps` numbers: each rank begins where its part of the one sequence does. */
static inline uint64_t ahead(uint64_t x, uint64_t steps) {
    for (uint64_t power = MULTIPLIER; steps; steps >>= 1, power = times(power, power))
        if (steps & 1) x = times(x, power);
    return x;
}

/* What is so of each class. */
static inline int by_class(char class, int small, int middle, int large) {
    return class == 'S' ? small : class == 'W' ? middle : large;
}

/* Part `part` of `parts` of `whole` things begins here. */
static inline long long part_of(long long whole, int part, int parts) { return whole * part / parts; }

#endif

/* How long a program stands still for a checkpoint: a state of MIB, of which a hundredth changes from one to the next.
 *
 *     cc -O2 -I../kumiko checkpoint.c -L... -lm -lkumikockpt -lpthread -ldl -lm -o checkpoint
 *     KUMIKO_CHECKPOINT=/tmp/ckpt ./checkpoint 1024
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kumiko_ckpt.h"

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 20, pages = bytes / 4096;
    char *state = malloc(bytes);
    unsigned long step = 0, seed = 1;
    double worst = 0, sum = 0;
    if (!state) return 1;
    memset(state, 1, bytes);
    kumiko_ckpt_state("state", state, bytes);
    kumiko_ckpt_state("step", &step, sizeof step);
    kumiko_ckpt_every(0);
    if (kumiko_ckpt_resumed()) printf("goes on at step %lu\n", step);
    for (unsigned long first = step; step < first + 21; step++) {
        kumiko_ckpt_point();
        double frozen_ms = kumiko_ckpt_frozen_s() * 1e3;
        if (step == first) {
            printf("whole: %.1f ms\n", frozen_ms);
        } else {
            sum += frozen_ms;
            if (frozen_ms > worst) worst = frozen_ms;
        }
        for (size_t i = 0; i < pages / 100; i++) {
            seed = seed * 6364136223846793005ul + 1442695040888963407ul;
            state[(seed >> 20) % bytes] += 1;
        }
    }
    printf("parts: %.2f ms, at most %.2f ms\n", sum / 20, worst);
    return 0;
}

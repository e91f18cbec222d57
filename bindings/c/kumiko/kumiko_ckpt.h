/* Checkpoints of a program: it names its memory once, and says where it is safe to go on from. A program that is started again
 * goes on from the last one. Link libkumikockpt.a (-lm -lkumikockpt -lpthread -ldl -lm), or make a routine with `kumiko rpc gen --checkpoint`.
 * Checkpoints lie in the folder that KUMIKO_CHECKPOINT names; without it, all of this does nothing.
 *
 *     double x[N]; long i = 0;
 *     kumiko_ckpt_state("x", x, sizeof x);
 *     kumiko_ckpt_state("i", &i, sizeof i);
 *     for (kumiko_ckpt_resumed(); i < steps; i++) {
 *         kumiko_ckpt_point();
 *         ...
 *     }
 */
#ifndef KUMIKO_CKPT_H
#define KUMIKO_CKPT_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names memory that a later start needs: under the same name and of the same size each time, before the first safe point. It stays
 * where it is until kumiko_ckpt_end or the end of the program. 0, or -1: it cannot be named (stderr says why). */
int kumiko_ckpt_state(const char *name, void *memory, size_t bytes);

/* Opens a file that a later start needs as it was at the checkpoint: as long, and the position where it was. As open(2) and fopen(3) do
 * in a program that begins (new files with 0666 but for the umask); named and opened as states are, before the first safe point, under
 * the same name each time (200 bytes, no /). Until that, or kumiko_ckpt_resumed, nothing is read from it or written to it. A stream stays
 * open as long as there are safe points, and is flushed by them. What was overwritten since the checkpoint, and not behind the end,
 * is not undone. Regular files alone. -1 or NULL, and errno. */
int kumiko_ckpt_open(const char *name, const char *path, int flags);
FILE *kumiko_ckpt_fopen(const char *name, const char *path, const char *mode);

/* Puts the last checkpoint's bytes into what was named. Its number; 0: there is none, go on from the beginning. The first safe point
 * does it too, if this was not called. */
unsigned long kumiko_ckpt_resumed(void);

/* A safe point: what was named is as a later start is to find it, and no thread writes to it meanwhile. Now and then, as often as pays,
 * it becomes a checkpoint; the program stands still while what changed is copied. */
void kumiko_ckpt_point(void);

/* Checkpoints so many seconds apart, 0: at each safe point; below 0 (usual): by what one costs, and how often something dies here,
 * which KUMIKO_CHECKPOINT_FAILURES_S says (a day). */
void kumiko_ckpt_every(double seconds);

/* How long the program stood still for the last checkpoint, in seconds. */
double kumiko_ckpt_frozen_s(void);

/* Other checkpoints, in this folder: 0, or -1. What was named is named anew. A routine's program says it for each call. */
int kumiko_ckpt_begin(const char *folder);

/* No more: the last one is on the disk, and what was named may go. */
void kumiko_ckpt_end(void);

#ifdef __cplusplus
}
#endif

#endif

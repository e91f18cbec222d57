/* What every routine's program has: it reads which call is wanted from its first descriptor, computes it, and says so on
 * its second (spec/rpc P60 to P69). Arguments and results lie in files that it maps, or stand beside the words when they
 * are small. It is C and C++ at once. Not here: texts and files of arrays (many.c), its caller's functions (asking.c), calls (serving.c). */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KUMIKO_CALL 0x316c6c61636d6b6bull   /* "kkmcall1", little-endian */
#define KUMIKO_DONE 0x31656e6f646d6b6bull   /* "kkmdone1" */
#define KUMIKO_BACK 0x316b6361626d6b6bull   /* "kkmback1" */
#define KUMIKO_SAID 0x31646961736d6b6bull   /* "kkmsaid1" */
#define KUMIKO_FAIL 0x316c6961666d6b6bull   /* "kkmfail1" */
#define KUMIKO_ERROR_MOST 4096              /* bytes that are told of an error */
#define KUMIKO_CALLBACK_MOST (1 << 20)      /* bytes that go to a callback, or come back */
#ifndef KUMIKO_IDLE_MS
#define KUMIKO_IDLE_MS (600 * 1000)         /* no call for so long: its site does not come back */
#endif
#define KUMIKO_NONE UINT64_MAX
#define KUMIKO_DIMENSIONS 15

struct kumiko_value {
    uint64_t kind;                          /* 0 scalar, 1 text, 2 array, 3 file, 4 callback, 5 texts, 6 files */
    uint64_t in_at, out_at;                 /* KUMIKO_NONE: it does not travel so */
    uint64_t memory_bytes, moved_bytes, element_bytes, dimensions;
    uint64_t section[KUMIKO_DIMENSIONS][4]; /* size, start, step, count; outermost first */
    void *memory;                           /* what the routine is given */
    int owned;                              /* mapped for this call alone */
    char **each;                            /* of a file, or an array of them, the names */
};

static const char *kumiko_arguments;        /* the folder of arguments */
static int kumiko_say;                      /* what is said there is heard by the site */
static uint64_t kumiko_this[3];             /* the call: client, count, epoch */
static jmp_buf kumiko_out;                  /* where a call ends that cannot be computed */
static uint64_t kumiko_asked;               /* callbacks of this call so far, from its beginning */
static volatile sig_atomic_t kumiko_to_end; /* SIGTERM came to a routine that asks for that */
static int kumiko_asks_end, kumiko_told_end;

#ifndef KUMIKO_CHECKPOINT                   /* made without the library: a safe point is nothing */
#define KUMIKO_WEAK __attribute__((weak))
KUMIKO_WEAK int kumiko_ckpt_state(const char *name, void *memory, size_t bytes) { (void)name; (void)memory; (void)bytes; return 0; }
KUMIKO_WEAK int kumiko_ckpt_open(const char *name, const char *path, int flags) { (void)name; return open(path, flags | O_CLOEXEC, 0666); }
KUMIKO_WEAK FILE *kumiko_ckpt_fopen(const char *name, const char *path, const char *mode) { (void)name; return fopen(path, mode); }
KUMIKO_WEAK unsigned long kumiko_ckpt_resumed(void) { return 0; }
KUMIKO_WEAK void kumiko_ckpt_point(void) {}
KUMIKO_WEAK void kumiko_ckpt_every(double seconds) { (void)seconds; }
KUMIKO_WEAK double kumiko_ckpt_frozen_s(void) { return 0; }
KUMIKO_WEAK int kumiko_ckpt_begin(const char *folder) { (void)folder; return 0; }
KUMIKO_WEAK void kumiko_ckpt_end(void) {}
#endif

static void kumiko_fail(const char *what) {
    int status = errno == ENOSPC || errno == EDQUOT ? 75 : 70; /* EX_TEMPFAIL, EX_SOFTWARE: sysexits.h */
    fprintf(stderr, "stub: %s: %s\n", what, errno ? strerror(errno) : "not as it should be");
    _exit(status);
}

#ifdef __cplusplus
extern "C" {
#endif
void kumiko_raise(const char *error, const char *told);
char *kumiko_text(const char *text);
int grpc_is_canceled_np(int *error);
#ifdef __cplusplus
}
#endif

/* 0: there is nothing more. */
static int kumiko_read(void *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t count = read(0, (char *)to + done, bytes - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) kumiko_fail("reading a call");
        if (count == 0) {
            if (done == 0) return 0;
            errno = 0;
            kumiko_fail("a call that breaks off");
        }
        done += (size_t)count;
    }
    return 1;
}

static void kumiko_write(int fd, const void *from, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t count = write(fd, (const char *)from + done, bytes - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) kumiko_fail("saying that it is done");
        done += (size_t)count;
    }
}

static void *kumiko_map(size_t bytes, int flags, int fd) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) kumiko_fail("mapping memory");
    return memory;
}

/* Between the elements side by side that travel and the whole array. Ends with what it has taken of `packed`. */
static char *kumiko_section(const struct kumiko_value *v, uint64_t dimension, char *whole, uint64_t bytes, char *packed, int out) {
    const uint64_t *s = v->section[dimension];
    uint64_t inner = bytes / (s[0] ? s[0] : 1);
    char *at = whole + s[1] * inner;
    if (dimension + 1 == v->dimensions && s[2] == 1) {
        size_t all = (size_t)(s[3] * inner);
        if (out) memcpy(packed, at, all); else memcpy(at, packed, all);
        return packed + all;
    }
    for (uint64_t i = 0; i < s[3]; i++, at += s[2] * inner) {
        if (dimension + 1 < v->dimensions) {
            packed = kumiko_section(v, dimension + 1, at, inner, packed, out);
        } else {
            if (out) memcpy(packed, at, inner); else memcpy(at, packed, inner);
            packed += inner;
        }
    }
    return packed;
}

/* A routine that cannot compute what it was given says why: the call ends by an error of this name, and does not come back here. For the
 * thread that the routine was called in; what it has allocated stays. */
void kumiko_raise(const char *error, const char *told) {
    char text[KUMIKO_ERROR_MOST];
    int length = snprintf(text, sizeof text, "%s\n%s", error && *error ? error : "Error", told ? told : "");
    uint64_t bytes = length < 0 ? 0 : length < KUMIKO_ERROR_MOST ? (uint64_t)length : KUMIKO_ERROR_MOST - 1;
    uint64_t words[5] = {KUMIKO_FAIL, kumiko_this[0], kumiko_this[1], kumiko_this[2], bytes};
    for (uint64_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] > 126) text[i] = '?'; /* it is to be UTF-8, and may be cut anywhere */
    fprintf(stderr, "%.*s\n", (int)bytes, text);
    fflush(NULL);
    kumiko_write(kumiko_say, words, sizeof words);
    kumiko_write(kumiko_say, text, bytes);
    longjmp(kumiko_out, 1);
}

static void kumiko_note_end(int signal) { kumiko_to_end = signal; }

static void kumiko_on_end(void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, NULL);
}

/* As Ninf-G has it. Until a routine has asked once, the signal ends it where it is; from then on it is told, and ends when it returns. */
int grpc_is_canceled_np(int *error) {
    if (!kumiko_asks_end) {
        kumiko_asks_end = 1;
        kumiko_on_end(kumiko_note_end);
    }
    if (error) *error = 0; /* GRPC_NO_ERROR */
    if (kumiko_to_end) kumiko_told_end = 1;
    return kumiko_told_end;
}

/* What a routine computed that stopped because it was told so is no result. */
static void kumiko_computed(void) {
    if (!kumiko_asks_end) return;
    kumiko_asks_end = 0;
    kumiko_on_end(SIG_DFL);
    if (kumiko_told_end) raise(SIGTERM);
}

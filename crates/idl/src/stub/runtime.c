/* What every routine's program has: it reads which call is wanted from its first descriptor, computes it, and says so on
 * its second (spec/rpc P60 to P69). Arguments and results lie in files that it maps, or stand beside the words when they
 * are small. It is C and C++ at once. */

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
    uint64_t kind;                          /* 0 scalar, 1 text, 2 array, 3 file, 4 callback, 5 texts */
    uint64_t in_at, out_at;                 /* KUMIKO_NONE: it does not travel so */
    uint64_t memory_bytes, moved_bytes, element_bytes, dimensions;
    uint64_t section[KUMIKO_DIMENSIONS][4]; /* size, start, step, count; outermost first */
    void *memory;                           /* what the routine is given */
    int owned;                              /* mapped for this call alone */
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

/* Gives each value its memory. Whole IN arrays are where they came (private: what was sent stays), whole OUT arrays where
 * they go. */
static void kumiko_give_file(struct kumiko_value *v, char *in, uint64_t number);

/* An array of texts: their lengths, then each with a zero behind it (spec/idl I42). */
static void kumiko_give_texts(struct kumiko_value *v, char *data) {
    uint64_t count = 1, at, bytes = v->moved_bytes;
    v->memory = NULL;
    if (v->memory_bytes == 0) return;
    for (uint64_t i = 0; i < v->dimensions; i++) count *= v->section[i][3];
    errno = EINVAL;
    if (count > bytes / 8) kumiko_fail("lengths of texts");
    char **texts = (char **)calloc((size_t)count + 1, sizeof *texts);
    if (!texts) kumiko_fail("memory");
    at = 8 * count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length;
        memcpy(&length, data + 8 * i, sizeof length);
        if (length == KUMIKO_NONE) continue;
        if (length >= bytes - at || data[at + length] != 0) kumiko_fail("the end of a text");
        texts[i] = data + at;
        at += length + 1;
    }
    v->memory = kumiko_map((size_t)v->memory_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    v->owned = 1;
    kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, (char *)texts, 0);
    free(texts);
}

static void kumiko_give(struct kumiko_value *v, char *in, char *out, uint64_t number) {
    v->owned = 0;
    if (v->kind == 0) {
        v->memory = in + 16 * number;
    } else if (v->kind == 3) {
        kumiko_give_file(v, in, number);
    } else if (v->kind == 4) {
        v->memory = NULL;
    } else if (v->kind == 5) {
        kumiko_give_texts(v, in + v->in_at);
    } else if (v->kind == 1) {
        v->memory = v->in_at == KUMIKO_NONE ? NULL : in + v->in_at;
    } else if (v->memory_bytes == 0) {
        v->memory = NULL;
    } else if (v->moved_bytes == v->memory_bytes && v->in_at != KUMIKO_NONE) {
        v->memory = in + v->in_at;
    } else if (v->moved_bytes == v->memory_bytes && v->out_at != KUMIKO_NONE) {
        v->memory = out + v->out_at;
    } else {
        v->memory = kumiko_map((size_t)v->memory_bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
        v->owned = 1;
        if (v->in_at != KUMIKO_NONE && v->moved_bytes)
            kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, in + v->in_at, 0);
    }
}

/* A file's content as a file of its own, which the routine may do with as it likes. */
static void kumiko_give_file(struct kumiko_value *v, char *in, uint64_t number) {
    char folder[3072], *path = (char *)malloc(sizeof folder + 128);
    if (!path) kumiko_fail("memory");
    if (!getcwd(folder, sizeof folder)) kumiko_fail("its own folder");
    sprintf(path, "%s/%llu-%llu.%llu.file%llu", folder, (unsigned long long)kumiko_this[0], (unsigned long long)kumiko_this[1],
            (unsigned long long)kumiko_this[2], (unsigned long long)number);
    unlink(path);
    v->memory = path;
    if (v->in_at == KUMIKO_NONE) return;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) kumiko_fail(path);
    kumiko_write(fd, in + v->in_at, (size_t)v->moved_bytes);
    if (close(fd) < 0) kumiko_fail(path);
}

/* Behind the rest of the result; of a file that is not there, nothing. Gives the result's end. */
static uint64_t kumiko_take_file(struct kumiko_value *v, char *out, int result, uint64_t end) {
    static char piece[1 << 18];
    const char *path = (const char *)v->memory;
    int fd = v->out_at == KUMIKO_NONE ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (v->out_at != KUMIKO_NONE) {
        uint64_t bytes = 0, at = (end + 63) / 64 * 64;
        struct stat meta;
        if (fd >= 0 && (fstat(fd, &meta) < 0 || !S_ISREG(meta.st_mode))) kumiko_fail(path);
        while (fd >= 0) {
            ssize_t count = read(fd, piece, sizeof piece);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) kumiko_fail(path);
            if (count == 0) break;
            if (lseek(result, (off_t)(at + bytes), SEEK_SET) < 0) kumiko_fail("its result");
            kumiko_write(result, piece, (size_t)count);
            bytes += (uint64_t)count;
        }
        memcpy(out + v->out_at, &bytes, sizeof bytes);
        end = at + bytes;
        if (ftruncate(result, (off_t)end) < 0) kumiko_fail("its result");
    }
    if (fd >= 0) close(fd);
    unlink(path);
    free(v->memory);
    return end;
}

/* One argument of a callback; `in`, `out`: whether its bytes go there, beside its head, and come back. */
enum { KUMIKO_PART_ARRAY, KUMIKO_PART_SCALAR, KUMIKO_PART_TEXT };
struct kumiko_part {
    int in, out, kind;
    void *memory;
    uint64_t bytes;
};

static uint64_t kumiko_times(uint64_t bytes, long long count) {
    if (count < 0 || (bytes && (uint64_t)count > KUMIKO_CALLBACK_MOST / bytes)) {
        errno = EMSGSIZE;
        kumiko_fail("a callback's array (1 MiB at most)");
    }
    return bytes * (uint64_t)count;
}

/* Of Fortran's, which ends where it is said, with blanks to fill it, for C. */
static char *kumiko_text_of(const char *text, size_t length) {
    while (length && text[length - 1] == ' ') length--;
    char *copy = (char *)malloc(length + 1);
    if (!copy) kumiko_fail("memory");
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

static long long kumiko_power(long long base, long long exponent) {
    long long result = 1;
    while (exponent-- > 0)
        if (__builtin_mul_overflow(result, base, &result)) kumiko_fail("a callback's size");
    return result;
}

/* Has the caller's function do its work: what goes there has the form of a call's arguments, what comes that of a result. */
static void kumiko_ask(uint64_t formal, struct kumiko_part *parts, uint64_t count) {
    static const char zeros[64] = {0};
    uint64_t in_bytes = 16 * count, out_bytes = 0, at;
    for (uint64_t i = 0; i < count; i++) {
        if (parts[i].in) in_bytes = (in_bytes + 63) / 64 * 64 + parts[i].bytes;
        if (parts[i].out) out_bytes = (out_bytes + 63) / 64 * 64 + parts[i].bytes;
    }
    if (in_bytes > KUMIKO_CALLBACK_MOST || out_bytes > KUMIKO_CALLBACK_MOST) {
        errno = EMSGSIZE;
        kumiko_fail("a callback's arguments (1 MiB at most goes either way)");
    }
    uint64_t words[7] = {KUMIKO_BACK, kumiko_this[0], kumiko_this[1], kumiko_this[2], ++kumiko_asked, formal, in_bytes};
    kumiko_write(kumiko_say, words, sizeof words);
    for (uint64_t i = 0; i < count; i++) {
        char head[16] = {0};
        uint64_t length = parts[i].memory ? parts[i].bytes - 1 : KUMIKO_NONE;
        if (parts[i].kind == KUMIKO_PART_SCALAR) memcpy(head, parts[i].memory, (size_t)parts[i].bytes);
        if (parts[i].kind == KUMIKO_PART_TEXT) memcpy(head, &length, sizeof length);
        kumiko_write(kumiko_say, head, sizeof head);
    }
    at = 16 * count;
    for (uint64_t i = 0; i < count; i++) {
        if (!parts[i].in) continue;
        uint64_t from = (at + 63) / 64 * 64;
        kumiko_write(kumiko_say, zeros, (size_t)(from - at));
        kumiko_write(kumiko_say, parts[i].memory, (size_t)parts[i].bytes);
        at = from + parts[i].bytes;
    }
    uint64_t said[6]; /* magic, client, count, epoch, number, bytes */
    if (!kumiko_read(said, sizeof said)) _exit(0); /* the call is not wanted any more */
    if (said[0] != KUMIKO_SAID || said[4] != kumiko_asked || said[5] != out_bytes) {
        errno = 0;
        kumiko_fail("an answer to another callback");
    }
    at = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!parts[i].out) continue;
        char gap[64];
        uint64_t from = (at + 63) / 64 * 64;
        if (from > at && !kumiko_read(gap, (size_t)(from - at))) _exit(0);
        if (parts[i].bytes && !kumiko_read(parts[i].memory, (size_t)parts[i].bytes)) _exit(0);
        at = from + parts[i].bytes;
    }
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

static void kumiko_take(struct kumiko_value *v, char *out) {
    if (v->kind != 2) return;
    if (v->out_at != KUMIKO_NONE && v->moved_bytes && v->memory != (void *)(out + v->out_at)) {
        if (v->owned) kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, out + v->out_at, 1);
        else memcpy(out + v->out_at, v->memory, (size_t)v->moved_bytes);
    }
    if (v->owned) munmap(v->memory, (size_t)v->memory_bytes);
}

/* Not 0: it has raised an error. */
static int kumiko_compute(void (*routine)(struct kumiko_value *), struct kumiko_value *values) {
    if (setjmp(kumiko_out)) return 1;
    routine(values);
    return 0;
}

/* 0: none comes any more. */
static int kumiko_next(uint64_t *head, size_t bytes) {
    struct pollfd from = {0, POLLIN, 0};
    int said;
    while ((said = poll(&from, 1, KUMIKO_IDLE_MS)) < 0 && errno == EINTR) {}
    if (said < 0) kumiko_fail("waiting for a call");
    return said && kumiko_read(head, bytes);
}

/* `routine` computes; it has `count` arguments. */
static int kumiko_main(int argc, char **argv, uint64_t count, void (*routine)(struct kumiko_value *)) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s ARGUMENTS   (a site starts this, and speaks with it)\n", argv[0]);
        return 2;
    }
    kumiko_arguments = argv[1];
    /* What the routine prints is no word of ours. */
    kumiko_say = dup(1);
    if (kumiko_say < 0 || dup2(2, 1) < 0) kumiko_fail("setting its output apart");
    fcntl(kumiko_say, F_SETFD, FD_CLOEXEC);
    struct kumiko_value *values = (struct kumiko_value *)calloc(count ? count : 1, sizeof *values);
    if (!values) kumiko_fail("memory");
    uint64_t head[8]; /* magic, client, sequence, epoch, flags, in_bytes, out_bytes, arguments */
    while (kumiko_next(head, sizeof head)) {
        errno = 0;
        if (head[0] != KUMIKO_CALL || head[7] != count) kumiko_fail("a call of another routine");
        int files = 0, callbacks = 0, result = -1;
        memcpy(kumiko_this, head + 1, sizeof kumiko_this);
        for (uint64_t i = 0; i < count; i++) {
            struct kumiko_value *v = &values[i];
            kumiko_read(&v->kind, 7 * sizeof(uint64_t));
            if (v->dimensions > KUMIKO_DIMENSIONS) kumiko_fail("too many dimensions");
            for (uint64_t d = 0; d < v->dimensions; d++) kumiko_read(v->section[d], sizeof v->section[d]);
            files |= v->kind == 3;
            callbacks |= v->kind == 4;
        }
        char name[4096];
        size_t in_bytes = (size_t)head[5], out_bytes = (size_t)head[6];
        int in_small = (head[4] & 1) != 0, out_small = (head[4] & 2) != 0;
        char *in = NULL, *out = NULL;
        if (in_bytes && in_small) {
            in = (char *)aligned_alloc(64, (in_bytes + 63) / 64 * 64);
            if (!in) kumiko_fail("memory");
            kumiko_read(in, in_bytes);
        } else if (in_bytes) {
            snprintf(name, sizeof name, "%s/%llu-%llu", kumiko_arguments, (unsigned long long)head[1], (unsigned long long)head[2]);
            int fd = open(name, O_RDONLY | O_CLOEXEC);
            if (fd < 0) kumiko_fail(name);
            in = (char *)kumiko_map(in_bytes, MAP_PRIVATE, fd);
            close(fd);
        }
        if (out_bytes && out_small) {
            out = (char *)aligned_alloc(64, (out_bytes + 63) / 64 * 64);
            if (!out) kumiko_fail("memory");
            memset(out, 0, out_bytes);
        } else if (out_bytes) {
            snprintf(name, sizeof name, "%llu-%llu.%llu", (unsigned long long)head[1], (unsigned long long)head[2], (unsigned long long)head[3]);
            int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (fd < 0) kumiko_fail(name);
            /* All of it, so that the disk is full now and not under the routine's hands; but where that cannot be asked for. */
            errno = posix_fallocate(fd, 0, (off_t)out_bytes);
            if (errno && ((errno != EOPNOTSUPP && errno != EINVAL) || ftruncate(fd, (off_t)out_bytes) != 0)) kumiko_fail(name);
            out = (char *)kumiko_map(out_bytes, MAP_SHARED, fd);
            if (files) result = fd; else close(fd);
        }
        for (uint64_t i = 0; i < count; i++) kumiko_give(&values[i], in, out, i);
        snprintf(name, sizeof name, "%llu-%llu.checkpoint", (unsigned long long)head[1], (unsigned long long)head[2]);
        kumiko_ckpt_begin(name);
        kumiko_asked = 0;
        /* One that goes on where it was goes on with its callbacks too. */
        if (callbacks) kumiko_ckpt_state("kumiko.callbacks", &kumiko_asked, sizeof kumiko_asked);
        int failed = kumiko_compute(routine, values);
        kumiko_computed();
        kumiko_ckpt_end();
        fflush(NULL);
        uint64_t end = head[6];
        for (uint64_t i = 0; i < count; i++) kumiko_take(&values[i], out);
        for (uint64_t i = 0; i < count; i++)
            if (values[i].kind == 3) end = kumiko_take_file(&values[i], out, result, end);
        if (result >= 0) close(result);
        if (failed && out && !out_small) {
            snprintf(name, sizeof name, "%llu-%llu.%llu", (unsigned long long)head[1], (unsigned long long)head[2], (unsigned long long)head[3]);
            unlink(name);
        }
        if (!failed) {
            uint64_t done[5] = {KUMIKO_DONE, head[1], head[2], head[3], end};
            kumiko_write(kumiko_say, done, sizeof done);
            if (out && out_small) kumiko_write(kumiko_say, out, out_bytes);
        }
        if (in && in_small) free(in); else if (in) munmap(in, in_bytes);
        if (out && out_small) free(out); else if (out) munmap(out, out_bytes);
        if (kumiko_to_end) raise(SIGTERM); /* it had its result first */
    }
    return 0;
}

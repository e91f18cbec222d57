/* Calls: what a routine is given, and what comes back. */

/* Gives each value its memory. Whole IN arrays are where they came (private: what was sent stays), whole OUT arrays where
 * they go. */
static void kumiko_give(struct kumiko_value *v, char *in, char *out, uint64_t number) {
    char *data = v->in_at == KUMIKO_NONE ? NULL : in + v->in_at;
    v->owned = 0;
    v->each = NULL;
    if (v->kind == 0) {
        v->memory = in + 16 * number;
    } else if (v->kind == 3 || v->kind == 6) {
        kumiko_give_files(v, number, data);
    } else if (v->kind == 4) {
        v->memory = NULL;
    } else if (v->kind == 5) {
        kumiko_give_texts(v, data);
    } else if (v->kind == 1) {
        v->memory = data;
    } else if (v->memory_bytes == 0) {
        v->memory = NULL;
    } else if (v->moved_bytes == v->memory_bytes && data) {
        v->memory = data;
    } else if (v->moved_bytes == v->memory_bytes && v->out_at != KUMIKO_NONE) {
        v->memory = out + v->out_at;
    } else {
        v->memory = kumiko_map((size_t)v->memory_bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
        v->owned = 1;
        if (data && v->moved_bytes) kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, data, 0);
    }
}

/* What comes back of an array of numbers. */
static void kumiko_take(struct kumiko_value *v, char *out) {
    if (v->kind == 2 && v->out_at != KUMIKO_NONE && v->moved_bytes && v->memory != (void *)(out + v->out_at)) {
        if (v->owned) kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, out + v->out_at, 1);
        else memcpy(out + v->out_at, v->memory, (size_t)v->moved_bytes);
    }
}

static void kumiko_drop(struct kumiko_value *v) {
    if (v->kind == 3 || v->kind == 6) kumiko_drop_files(v);
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
        int callbacks = 0, result = -1;
        memcpy(kumiko_this, head + 1, sizeof kumiko_this);
        for (uint64_t i = 0; i < count; i++) {
            struct kumiko_value *v = &values[i];
            kumiko_read(&v->kind, 7 * sizeof(uint64_t));
            if (v->dimensions > KUMIKO_DIMENSIONS) kumiko_fail("too many dimensions");
            for (uint64_t d = 0; d < v->dimensions; d++) kumiko_read(v->section[d], sizeof v->section[d]);
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
            result = fd;
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
        for (uint64_t i = 0; !failed && i < count; i++) kumiko_take(&values[i], out);
        /* What has its own length stands behind the rest. */
        for (uint64_t i = 0; !failed && i < count; i++) {
            struct kumiko_value *v = &values[i];
            if (v->out_at == KUMIKO_NONE) continue;
            if (v->kind == 5) end = kumiko_take_texts(v, out, result, end);
            if (v->kind == 3 || v->kind == 6) end = kumiko_take_files(v, out, result, end);
        }
        for (uint64_t i = 0; i < count; i++) kumiko_drop(&values[i]);
        kumiko_forget();
        if (result >= 0) {
            snprintf(name, sizeof name, "%llu-%llu.%llu", (unsigned long long)head[1], (unsigned long long)head[2], (unsigned long long)head[3]);
            munmap(out, out_bytes);
            if (failed) unlink(name);
            /* Where this folder is another host's (FUSE, NFS), what was mapped gets there by now, and not before; or here it is said why not. */
            if (close(result) != 0 && !failed) kumiko_fail(name);
        }
        if (!failed) {
            uint64_t done[5] = {KUMIKO_DONE, head[1], head[2], head[3], end};
            kumiko_write(kumiko_say, done, sizeof done);
            if (out && out_small) kumiko_write(kumiko_say, out, out_bytes);
        }
        if (in && in_small) free(in); else if (in) munmap(in, in_bytes);
        if (out && out_small) free(out);
        if (kumiko_to_end) raise(SIGTERM); /* it had its result first */
    }
    return 0;
}

/* Functions of the caller's (spec/rpc P68). */

/* One argument of a callback; `in`, `out`: whether it goes there and comes back. */
enum { KUMIKO_PART_ARRAY, KUMIKO_PART_SCALAR, KUMIKO_PART_TEXT, KUMIKO_PART_TEXTS, KUMIKO_PART_FILE, KUMIKO_PART_FILES };
struct kumiko_part {
    int in, out, kind;
    void *memory;
    uint64_t element;           /* bytes of one of an array, of a scalar, of a text with its zero */
    struct kumiko_value value;  /* of an array its dimensions */
    char *given;                /* what goes there, beside its head */
    uint64_t bytes;             /* of that, and of an array of numbers also of what comes back */
    int owned;
};

static void kumiko_too_long(void) {
    errno = EMSGSIZE;
    kumiko_fail("a callback's arguments (1 MiB at most goes either way)");
}

static long long kumiko_power(long long base, long long exponent) {
    long long result = 1;
    while (exponent-- > 0)
        if (__builtin_mul_overflow(result, base, &result)) kumiko_fail("a callback's size");
    return result;
}

/* The next dimension, and what of it travels (spec/idl I21). */
static void kumiko_dimension(struct kumiko_part *part, long long size, long long start, long long end, long long step) {
    uint64_t *section = part->value.section[part->value.dimensions++];
    if (end == 0) end = size;
    if (step == 0) step = 1;
    if (size < 0 || start < 0 || step < 0 || start > end || end > size) {
        errno = EINVAL;
        kumiko_fail("a callback's size, or what of it travels");
    }
    section[0] = (uint64_t)size;
    section[1] = (uint64_t)start;
    section[2] = (uint64_t)(step > size ? size ? size : 1 : step);
    section[3] = (uint64_t)((end - start) / step + ((end - start) % step != 0));
}

/* Bytes of an array in memory; more than may go there is refused. */
static void kumiko_measure(struct kumiko_part *part) {
    struct kumiko_value *v = &part->value;
    v->memory = part->memory;
    v->memory_bytes = part->element;
    for (uint64_t i = 0; i < v->dimensions; i++)
        if (v->section[i][0] == 0) v->memory_bytes = 0;
    for (uint64_t i = 0; i < v->dimensions && v->memory_bytes; i++) {
        if (v->section[i][0] > KUMIKO_CALLBACK_MOST / v->memory_bytes) kumiko_too_long();
        v->memory_bytes *= v->section[i][0];
    }
    v->moved_bytes = v->memory_bytes ? part->element * kumiko_moved(v) : 0;
}

/* Contents of files, with their lengths before them where there are several; to be freed. */
static char *kumiko_pack_files(char **paths, uint64_t count, int several, uint64_t *bytes) {
    uint64_t at = several ? 8 * count : 0;
    char *packed = (char *)malloc(KUMIKO_CALLBACK_MOST);
    if (!packed) kumiko_fail("memory");
    if (at > KUMIKO_CALLBACK_MOST) kumiko_too_long();
    for (uint64_t i = 0; i < count; i++) {
        uint64_t from = at;
        int fd = paths[i] ? kumiko_open_file(paths[i]) : -1;
        if (fd < 0) kumiko_fail(paths[i] ? paths[i] : "a callback's file");
        for (;;) {
            ssize_t got = read(fd, packed + at, (size_t)(KUMIKO_CALLBACK_MOST - at));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) kumiko_fail(paths[i]);
            if (got == 0) break;
            at += (uint64_t)got;
        }
        struct stat meta;
        if (fstat(fd, &meta) < 0 || (uint64_t)meta.st_size > at - from) kumiko_too_long();
        close(fd);
        from = at - from;
        if (several) memcpy(packed + 8 * i, &from, sizeof from);
    }
    *bytes = at;
    return packed;
}

/* What of a part goes there. */
static void kumiko_ready(struct kumiko_part *part) {
    struct kumiko_value *v = &part->value;
    char **each = NULL;
    if (v->dimensions) kumiko_measure(part);
    part->owned = part->in;
    switch (part->kind) {
    case KUMIKO_PART_TEXT:
        part->given = (char *)part->memory;
        part->bytes = part->memory ? part->element : 0;
        part->owned = 0;
        break;
    case KUMIKO_PART_ARRAY:
        part->bytes = v->moved_bytes;
        part->given = (char *)part->memory;
        part->owned = part->in && v->moved_bytes != v->memory_bytes;
        if (!part->owned) break;
        part->given = (char *)malloc((size_t)part->bytes + 1);
        if (!part->given) kumiko_fail("memory");
        if (part->bytes) kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, part->given, 1);
        break;
    case KUMIKO_PART_TEXTS:
        if (!part->in) break;
        each = kumiko_picked(v);
        part->given = kumiko_pack_texts(each, kumiko_moved(v), &part->bytes);
        break;
    case KUMIKO_PART_FILES:
        if (!part->in) break;
        each = kumiko_picked(v);
        part->given = kumiko_pack_files(each, kumiko_moved(v), 1, &part->bytes);
        break;
    case KUMIKO_PART_FILE:
        if (part->in) part->given = kumiko_pack_files((char **)&part->memory, 1, 0, &part->bytes);
        break;
    }
    free(each);
}

/* What has come back for a part whose length its caller's function knew alone. */
static void kumiko_put_back(struct kumiko_part *part, char *data, uint64_t bytes) {
    struct kumiko_value *v = &part->value;
    if (part->kind == KUMIKO_PART_FILE) {
        if (part->memory) kumiko_fill_file((const char *)part->memory, O_TRUNC, data, bytes);
        return;
    }
    uint64_t count = kumiko_moved(v), at = 8 * count;
    errno = EINVAL;
    if (count > bytes / 8) kumiko_fail("lengths of what a callback gives back");
    if (part->kind == KUMIKO_PART_TEXTS) {
        char **texts = kumiko_addresses(count);
        kumiko_unpack_texts(texts, count, (char *)memcpy(kumiko_keep((size_t)bytes), data, (size_t)bytes), bytes);
        if (v->memory) kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, (char *)texts, 0);
        free(texts);
        return;
    }
    char **paths = kumiko_picked(v);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length;
        memcpy(&length, data + 8 * i, sizeof length);
        errno = EINVAL;
        if (length > bytes - at) kumiko_fail("the end of a callback's file");
        if (paths[i]) kumiko_fill_file(paths[i], O_TRUNC, data + at, length);
        at += length;
    }
    free(paths);
}

/* Has the caller's function do its work: what goes there has the form of a call's arguments, what comes that of a result. */
static void kumiko_ask(uint64_t formal, struct kumiko_part *parts, uint64_t count) {
    static const char zeros[64] = {0};
    uint64_t in_bytes = 16 * count, out_bytes = 0, at;
    int tail = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct kumiko_part *part = &parts[i];
        kumiko_ready(part);
        if (part->in) in_bytes = kumiko_aligned(in_bytes) + part->bytes;
        if (part->out) out_bytes = kumiko_aligned(out_bytes) + (part->kind == KUMIKO_PART_ARRAY ? part->bytes : 16);
        tail |= part->out && part->kind != KUMIKO_PART_ARRAY;
    }
    if (in_bytes > KUMIKO_CALLBACK_MOST || out_bytes > KUMIKO_CALLBACK_MOST) kumiko_too_long();
    uint64_t words[7] = {KUMIKO_BACK, kumiko_this[0], kumiko_this[1], kumiko_this[2], ++kumiko_asked, formal, in_bytes};
    kumiko_write(kumiko_say, words, sizeof words);
    for (uint64_t i = 0; i < count; i++) {
        char head[16] = {0};
        uint64_t length = parts[i].kind != KUMIKO_PART_TEXT ? parts[i].bytes : parts[i].memory ? parts[i].bytes - 1 : KUMIKO_NONE;
        if (parts[i].kind == KUMIKO_PART_SCALAR) memcpy(head, parts[i].memory, (size_t)parts[i].element);
        else if (parts[i].kind != KUMIKO_PART_ARRAY && (parts[i].in || parts[i].kind == KUMIKO_PART_TEXT)) memcpy(head, &length, sizeof length);
        kumiko_write(kumiko_say, head, sizeof head);
    }
    at = 16 * count;
    for (uint64_t i = 0; i < count; i++) {
        if (!parts[i].in) continue;
        kumiko_write(kumiko_say, zeros, (size_t)(kumiko_aligned(at) - at));
        kumiko_write(kumiko_say, parts[i].given, (size_t)parts[i].bytes);
        at = kumiko_aligned(at) + parts[i].bytes;
        if (parts[i].owned) free(parts[i].given);
    }
    uint64_t said[6]; /* magic, client, count, epoch, number, bytes */
    if (!kumiko_read(said, sizeof said)) _exit(0); /* the call is not wanted any more */
    int fits = tail ? said[5] >= out_bytes && said[5] <= KUMIKO_CALLBACK_MOST : said[5] == out_bytes;
    if (said[0] != KUMIKO_SAID || said[4] != kumiko_asked || !fits) {
        errno = 0;
        kumiko_fail("an answer to another callback");
    }
    char *result = (char *)malloc((size_t)said[5] + 1);
    if (!result) kumiko_fail("memory");
    if (said[5] && !kumiko_read(result, (size_t)said[5])) _exit(0);
    uint64_t end = out_bytes;
    at = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct kumiko_part *part = &parts[i];
        if (!part->out) continue;
        at = kumiko_aligned(at);
        if (part->kind == KUMIKO_PART_ARRAY) {
            if (part->bytes) kumiko_section(&part->value, 0, (char *)part->memory, part->value.memory_bytes, result + at, 0);
            at += part->bytes;
            continue;
        }
        uint64_t bytes;
        memcpy(&bytes, result + at, sizeof bytes);
        at += 16;
        end = kumiko_aligned(end);
        errno = EINVAL;
        if (end > said[5] || bytes > said[5] - end) kumiko_fail("what a callback gives back");
        kumiko_put_back(part, result + end, bytes);
        end += bytes;
    }
    free(result);
}

/* Fortran's arrays of texts for C, and what came back. */
static uint64_t kumiko_counted(long long count) {
    errno = EINVAL;
    if (count < 0 || count > KUMIKO_CALLBACK_MOST / 8) kumiko_fail("a callback's size");
    return (uint64_t)count;
}

static char **kumiko_texts_from(const char *fixed, uint64_t count, size_t width) {
    char **texts = kumiko_addresses(2 * count);
    for (uint64_t i = 0; i < count; i++) texts[i] = texts[count + i] = kumiko_text_of(fixed + i * width, width);
    return texts;
}

static void kumiko_texts_to(char *fixed, uint64_t count, size_t width, char **texts, int out) {
    for (uint64_t i = 0; i < count; i++) {
        if (out) memset(fixed + i * width, ' ', width);
        if (out && texts[i]) memcpy(fixed + i * width, texts[i], strnlen(texts[i], width));
        free(texts[count + i]); /* texts[i] may be another by now, which is the call's */
    }
    free(texts);
}

/* Texts and files of arrays, each as long as it is (spec/idl I42, I45). */

static uint64_t kumiko_aligned(uint64_t at) { return (at + 63) / 64 * 64; }

/* Memory that is the call's. */
struct kumiko_kept {
    struct kumiko_kept *next;
    uint64_t gap; /* what follows begins where any element may */
};
static struct kumiko_kept *kumiko_kept_first;

static void *kumiko_keep(size_t bytes) {
    struct kumiko_kept *one = (struct kumiko_kept *)malloc(sizeof *one + bytes);
    if (!one) kumiko_fail("memory");
    one->next = __atomic_load_n(&kumiko_kept_first, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&kumiko_kept_first, &one->next, one, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    return one + 1;
}

static void kumiko_forget(void) {
    while (kumiko_kept_first) {
        struct kumiko_kept *next = kumiko_kept_first->next;
        free(kumiko_kept_first);
        kumiko_kept_first = next;
    }
}

/* A copy that stays until the call is over: what a routine puts into an array of texts that comes back. For all threads. */
char *kumiko_text(const char *text) {
    size_t bytes = text ? strlen(text) + 1 : 0;
    return text ? (char *)memcpy(kumiko_keep(bytes), text, bytes) : NULL;
}

/* How many elements of an array travel. */
static uint64_t kumiko_moved(const struct kumiko_value *v) {
    uint64_t count = 1;
    for (uint64_t i = 0; i < v->dimensions; i++) count *= v->section[i][3];
    return count;
}

static char **kumiko_addresses(uint64_t count) {
    char **all = (char **)calloc((size_t)count + 1, sizeof *all);
    if (!all) kumiko_fail("memory");
    return all;
}

/* Those that travel of an array of addresses; to be freed. */
static char **kumiko_picked(const struct kumiko_value *v) {
    char **all = kumiko_addresses(kumiko_moved(v));
    if (v->memory) kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, (char *)all, 1);
    return all;
}

/* `count` texts out of `bytes`: where each lies there, NULL for none. */
static void kumiko_unpack_texts(char **texts, uint64_t count, char *data, uint64_t bytes) {
    uint64_t at = 8 * count;
    errno = EINVAL;
    if (count > bytes / 8) kumiko_fail("lengths of texts");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length;
        memcpy(&length, data + 8 * i, sizeof length);
        if (length == KUMIKO_NONE) continue;
        if (length >= bytes - at || data[at + length] != 0) kumiko_fail("the end of a text");
        texts[i] = data + at;
        at += length + 1;
    }
}

/* As they travel; to be freed. */
static char *kumiko_pack_texts(char **texts, uint64_t count, uint64_t *bytes) {
    uint64_t at = 8 * count;
    for (uint64_t i = 0; i < count; i++)
        if (texts[i]) at += strlen(texts[i]) + 1;
    char *packed = (char *)malloc((size_t)at + 1);
    if (!packed) kumiko_fail("memory");
    *bytes = at;
    at = 8 * count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = texts[i] ? strlen(texts[i]) : KUMIKO_NONE;
        memcpy(packed + 8 * i, &length, sizeof length);
        if (!texts[i]) continue;
        memcpy(packed + at, texts[i], (size_t)length + 1);
        at += length + 1;
    }
    return packed;
}

/* The array of their addresses in the routine's memory. */
static void kumiko_give_addresses(struct kumiko_value *v, char **each) {
    v->memory = NULL;
    if (v->memory_bytes == 0) return;
    v->memory = kumiko_map((size_t)v->memory_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    v->owned = 1;
    kumiko_section(v, 0, (char *)v->memory, v->memory_bytes, (char *)each, 0);
}

/* `data` NULL: none goes in. */
static void kumiko_give_texts(struct kumiko_value *v, char *data) {
    uint64_t count = kumiko_moved(v);
    errno = EINVAL;
    if (data && count > v->moved_bytes / 8) kumiko_fail("lengths of texts");
    char **texts = kumiko_addresses(count);
    if (data) kumiko_unpack_texts(texts, count, data, v->moved_bytes);
    kumiko_give_addresses(v, texts);
    free(texts);
}

static void kumiko_put(int fd, const void *from, uint64_t bytes, uint64_t at) {
    if (lseek(fd, (off_t)at, SEEK_SET) < 0) kumiko_fail("its result");
    kumiko_write(fd, from, (size_t)bytes);
}

/* `bytes` more stand behind the rest of the result; gives its end. */
static uint64_t kumiko_tell(const struct kumiko_value *v, char *out, int result, uint64_t at, uint64_t bytes) {
    memcpy(out + v->out_at, &bytes, sizeof bytes);
    if (ftruncate(result, (off_t)(at + bytes)) < 0) kumiko_fail("its result");
    return at + bytes;
}

static uint64_t kumiko_take_texts(struct kumiko_value *v, char *out, int result, uint64_t end) {
    uint64_t at = kumiko_aligned(end), bytes;
    char **texts = kumiko_picked(v), *packed = kumiko_pack_texts(texts, kumiko_moved(v), &bytes);
    kumiko_put(result, packed, bytes, at);
    free(packed);
    free(texts);
    return kumiko_tell(v, out, result, at, bytes);
}

/* A name for a file of the call's, which is not there yet. `index`: of an array's, else 0. */
static char *kumiko_file_name(uint64_t number, uint64_t index) {
    char folder[3072], *path = (char *)malloc(sizeof folder + 160);
    if (!path) kumiko_fail("memory");
    if (!getcwd(folder, sizeof folder)) kumiko_fail("its own folder");
    int length = sprintf(path, "%s/%llu-%llu.%llu.file%llu", folder, (unsigned long long)kumiko_this[0], (unsigned long long)kumiko_this[1],
                         (unsigned long long)kumiko_this[2], (unsigned long long)number);
    if (index) sprintf(path + length, ".%llu", (unsigned long long)index);
    unlink(path);
    return path;
}

static void kumiko_fill_file(const char *path, int made, const char *content, uint64_t bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | made | O_CLOEXEC, 0600);
    if (fd < 0) kumiko_fail(path);
    kumiko_write(fd, content, (size_t)bytes);
    if (close(fd) < 0) kumiko_fail(path);
}

/* Each file's content as a file of its own, which the routine may do with as it likes. `data` NULL: none goes in. */
static void kumiko_give_files(struct kumiko_value *v, uint64_t number, const char *data) {
    uint64_t count = v->kind == 6 ? kumiko_moved(v) : 1, at = 8 * count;
    errno = EINVAL;
    if (v->kind == 6 && data && count > v->moved_bytes / 8) kumiko_fail("lengths of files");
    v->each = kumiko_addresses(count);
    for (uint64_t i = 0; i < count; i++) {
        v->each[i] = kumiko_file_name(number, v->kind == 6 ? i + 1 : 0);
        if (!data) continue;
        uint64_t bytes = v->moved_bytes;
        if (v->kind == 6) {
            memcpy(&bytes, data + 8 * i, sizeof bytes);
            errno = EINVAL;
            if (bytes > v->moved_bytes - at) kumiko_fail("the end of a file");
        }
        kumiko_fill_file(v->each[i], O_EXCL, v->kind == 6 ? data + at : data, bytes);
        at += bytes;
    }
    if (v->kind == 6) kumiko_give_addresses(v, v->each);
    else v->memory = v->each[0];
}

/* Of a file that is not there, nothing. */
static int kumiko_open_file(const char *path) {
    struct stat meta;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &meta) < 0 || !S_ISREG(meta.st_mode))) kumiko_fail(path);
    return fd;
}

/* How many bytes of it are in the result now. */
static uint64_t kumiko_append_file(const char *path, int result, uint64_t at) {
    static char piece[1 << 18];
    uint64_t bytes = 0;
    int fd = kumiko_open_file(path);
    while (fd >= 0) {
        ssize_t count = read(fd, piece, sizeof piece);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) kumiko_fail(path);
        if (count == 0) break;
        kumiko_put(result, piece, (uint64_t)count, at + bytes);
        bytes += (uint64_t)count;
    }
    if (fd >= 0) close(fd);
    return bytes;
}

static uint64_t kumiko_take_files(struct kumiko_value *v, char *out, int result, uint64_t end) {
    uint64_t at = kumiko_aligned(end);
    if (v->kind == 3) return kumiko_tell(v, out, result, at, kumiko_append_file(v->each[0], result, at));
    uint64_t count = kumiko_moved(v), bytes = 8 * count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = kumiko_append_file(v->each[i], result, at + bytes);
        kumiko_put(result, &length, sizeof length, at + 8 * i);
        bytes += length;
    }
    return kumiko_tell(v, out, result, at, bytes);
}

static void kumiko_drop_files(struct kumiko_value *v) {
    uint64_t count = v->kind == 6 ? kumiko_moved(v) : 1;
    for (uint64_t i = 0; v->each && i < count; i++) {
        unlink(v->each[i]);
        free(v->each[i]);
    }
    free(v->each);
    v->each = NULL;
}

/* Fortran's texts end where it is said, with blanks to fill them. */
#ifndef KUMIKO_FORTRAN_TEXT
#define KUMIKO_FORTRAN_TEXT 256 /* bytes of each that comes back, or as many as the longest that goes in has */
#endif

static size_t kumiko_width(char **texts, uint64_t count, int out) {
    size_t width = out ? KUMIKO_FORTRAN_TEXT : 1;
    for (uint64_t i = 0; i < count; i++)
        if (texts[i] && strlen(texts[i]) > width) width = strlen(texts[i]);
    return width;
}

/* To be freed. */
static char *kumiko_fixed(char **texts, uint64_t count, size_t width) {
    if (count && width > SIZE_MAX / 2 / count) kumiko_fail("memory");
    char *fixed = (char *)malloc((size_t)count * width + 1);
    if (!fixed) kumiko_fail("memory");
    memset(fixed, ' ', (size_t)count * width);
    for (uint64_t i = 0; i < count; i++)
        if (texts[i]) memcpy(fixed + i * width, texts[i], strnlen(texts[i], width));
    return fixed;
}

/* For C; to be freed. */
static char *kumiko_text_of(const char *fixed, size_t width) {
    while (width && fixed[width - 1] == ' ') width--;
    char *copy = (char *)malloc(width + 1);
    if (!copy) kumiko_fail("memory");
    memcpy(copy, fixed, width);
    copy[width] = 0;
    return copy;
}

/* What Fortran has put there comes back. */
static void kumiko_texts_of(char **texts, uint64_t count, const char *fixed, size_t width) {
    for (uint64_t i = 0; i < count; i++) {
        char *copy = kumiko_text_of(fixed + i * width, width);
        texts[i] = kumiko_text(copy);
        free(copy);
    }
}

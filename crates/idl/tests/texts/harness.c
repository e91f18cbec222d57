/* Unpacks arrays of texts as a routine's program does (many.c). Each case of the input is three numbers of 8 bytes, how many texts, how many bytes,
   0, and those bytes; each has a line of the output: its texts, with `-` for none, or how its process ended. */

#include "runtime.c"
#include "many.c"

#include <sys/wait.h>

static void unpack(uint64_t count, uint64_t bytes, const char *data) {
    struct kumiko_value v = {0};
    v.kind = 5;
    v.memory_bytes = count * sizeof(char *);
    v.element_bytes = sizeof(char *);
    v.moved_bytes = bytes;
    v.dimensions = 1;
    v.section[0][0] = v.section[0][3] = count;
    v.section[0][2] = 1;
    /* Of just this size: a byte beyond is told of. */
    char *own = (char *)malloc(bytes ? bytes : 1);
    memcpy(own, data, bytes);
    kumiko_give_texts(&v, own);
    char **texts = (char **)v.memory;
    for (uint64_t i = 0; i < count; i++) printf("%s;", texts[i] ? texts[i] : "-");
    printf("\n");
    fflush(stdout);
    _exit(0);
}

int main(void) {
    uint64_t head[3];
    while (kumiko_read(head, sizeof head)) {
        char *data = (char *)malloc(head[1] ? head[1] : 1);
        if (!data || (head[1] && !kumiko_read(data, head[1]))) return 2;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr)) _exit(3);
            unpack(head[0], head[1], data);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) return 2;
        if (status != 0) printf("status %d signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
        free(data);
    }
    return 0;
}

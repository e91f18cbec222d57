/* Arrays of texts and files by the interface for C: what comes back is the caller's to free, and its own texts stay its own. */

#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(grpc_error_t error) {
    if (error == GRPC_NO_ERROR) return;
    fprintf(stderr, "%s: %s\n", grpc_error_string(error), kumiko_last_message());
    exit(1);
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(name, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file)) exit(2);
}

static void show(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) exit(3);
    printf("%s:", name);
    for (int c; (c = getc(file)) != EOF;) putchar(c == '\n' ? '|' : c);
    printf("\n");
    fclose(file);
}

static int asked;

static void show_log(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) exit(3);
    for (int c; (c = getc(file)) != EOF;) putchar(c == '\n' ? '|' : c);
    printf("\n");
    fclose(file);
}

/* What does not travel is not there: of x every second number, of lines the first. */
static void f(int *n, char **lines, char *log, char **logs, char **told, char **more, double *w, int *x, char *one, char *what) {
    static char text[3][40];
    asked++;
    printf("%s %s, %d: %s %s %d %d", what ? what : "none", lines[0] ? lines[0] : "none", *n, lines[1], lines[2], x[0], x[1]);
    for (int i = 0; i < *n; i++) printf(" %g", w[i]);
    printf("\n");
    w[0] = 7;
    show_log(log);
    if (strcmp(logs[0], log) == 0) exit(4);
    snprintf(text[0], sizeof text[0], "asked %d", asked);
    lines[0] = "never seen";
    lines[1] = text[0];
    snprintf(text[1], sizeof text[1], "more %d", asked);
    more[0] = text[1];
    more[1] = NULL;
    for (int i = 0; i < 2 * *n; i++) x[i] += 100;
    put(log, "told\n");
    put(told[1], "second\n");
    put(one, "one\n");
}

int main(void) {
    grpc_function_handle_t words, second, deal, join, mark, ask, fails;
    int count = 0, others = 9;
    must(grpc_initialize(NULL));

    char *found[4];
    must(grpc_function_handle_default(&words, "lines/words"));
    must(grpc_call(&words, "to be  or", 4, &count, found));
    printf("%d: %s %s %s %s\n", count, found[0], found[1], found[2], found[3] ? found[3] : "none");
    for (int i = 0; i < 4; i++) free(found[i]);

    char own[] = "own", *lines[4] = {own, "one", own, "three"};
    must(grpc_function_handle_default(&second, "lists/every_second"));
    must(grpc_call(&second, 4, lines, NULL, &others));
    printf("%s %s %s %s, others %d\n", lines[0], lines[1], lines[2], lines[3], others);
    if (lines[0] != own) exit(5);
    free(lines[1]);
    free(lines[3]);

    char *parts[2] = {"part1", "part2"}, *none[2] = {"part1", "nowhere"};
    put("whole", "a\nb\nc\n");
    must(grpc_function_handle_default(&deal, "lines/deal"));
    must(grpc_call(&deal, "whole", 2, parts));
    show("part1");
    show("part2");
    must(grpc_function_handle_default(&join, "lines/join"));
    must(grpc_call(&join, 2, parts, "joined"));
    show("joined");
    if (grpc_call(&join, 2, none, "joined") == GRPC_NO_ERROR) exit(6);
    printf("%s\n", strstr(kumiko_last_message(), "nowhere") ? "it is told which" : kumiko_last_message());
    if (grpc_call(&join, 2, NULL, "joined") == GRPC_NO_ERROR) exit(7);

    char *logs[4] = {"part1", "part2", "whole", "joined"};
    must(grpc_function_handle_default(&mark, "lists/mark"));
    must(grpc_call(&mark, 2, logs, "mark"));
    for (int i = 0; i < 4; i++) show(logs[i]);

    char *three[3] = {own, own, "told"}, *wrote[3] = {"part1", "part2", "joined"};
    double x[3] = {1, 2, 3};
    must(grpc_function_handle_default(&fails, "lists/fails"));
    if (grpc_call(&fails, 3, three, wrote, x) == GRPC_NO_ERROR) exit(8);
    printf("%s\n", strstr(kumiko_last_message(), "told") ? "it is told why" : kumiko_last_message());
    if (three[0] != own || x[2] != 3) exit(9);
    show("part1");

    char *given[3] = {"zero", "one", "two"}, *answers[3], *told[2] = {"told1", "told2"};
    long sum = 0;
    must(grpc_function_handle_default(&ask, "lists/ask"));
    must(grpc_call(&ask, 3, given, "part1", answers, told, &sum, f));
    printf("%s %s %s, sum %ld, asked %d\n", answers[0], answers[1], answers[2], sum, asked);
    for (int i = 0; i < 3; i++) free(answers[i]);
    show("told1");
    show("told2");
    must(grpc_finalize());
    return 0;
}

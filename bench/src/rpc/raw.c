/* What a call would cost with nothing but its bytes: TLS to one process, a socket to a second, pipes to a third, and back the same way,
 * as a call goes by the site and a runner to its routine. `raw server CERT KEY` prints its port; `raw client PORT` takes "null COUNT" and
 * "big COUNT" on stdin and prints the mean and the 99th percentile of its calls, in seconds. Nothing is checked or kept. */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BIG_IN (8u << 20)
#define BIG_OUT (12u << 10)

struct head { uint32_t in, out; };

static void die(const char *what) { perror(what); exit(1); }

static void read_all(int fd, void *to, size_t n) {
    for (char *p = to; n;) {
        ssize_t k = read(fd, p, n);
        if (k <= 0) exit(0);
        p += k, n -= (size_t)k;
    }
}

static void write_all(int fd, const void *from, size_t n) {
    for (const char *p = from; n;) {
        ssize_t k = write(fd, p, n);
        if (k <= 0) exit(0);
        p += k, n -= (size_t)k;
    }
}

static void tls_read(SSL *tls, void *to, size_t n) {
    for (char *p = to; n;) {
        size_t k = 0;
        if (SSL_read_ex(tls, p, n, &k) <= 0) exit(0);
        p += k, n -= k;
    }
}

static void tls_write(SSL *tls, const void *from, size_t n) {
    size_t k = 0;
    if (n && SSL_write_ex(tls, from, n, &k) <= 0) exit(0);
}

static void no_delay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* The third process: computes nothing, and writes a result. */
static void compute(int in, int out, char *arguments, char *result) {
    struct head head;
    for (;;) {
        read_all(in, &head, sizeof head);
        if (head.in) memset(result, arguments[head.in - 1], head.out);
        write_all(out, &head, sizeof head);
    }
}

/* The second: hands on. */
static void relay(int up, char *arguments, char *result) {
    int down[2], back[2];
    struct head head;
    if (pipe(down) || pipe(back)) die("pipe");
    if (!fork()) {
        /* It ends when the relay does, so it holds none of the relay's ends. */
        close(down[1]), close(back[0]), close(up);
        compute(down[0], back[1], arguments, result);
    }
    for (;;) {
        read_all(up, &head, sizeof head);
        write_all(down[1], &head, sizeof head);
        read_all(back[0], &head, sizeof head);
        write_all(up, &head, sizeof head);
    }
}

static void server(const char *cert, const char *key) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char *arguments = mmap(NULL, BIG_IN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *result = mmap(NULL, BIG_OUT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    int pair[2], listener = socket(AF_INET, SOCK_STREAM, 0);
    struct head head;
    if (arguments == MAP_FAILED || result == MAP_FAILED) die("mmap");
    if (SSL_CTX_use_certificate_chain_file(context, cert) <= 0) die(cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) <= 0) die(key);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) die("socketpair");
    if (!fork()) {
        close(pair[0]);
        relay(pair[1], arguments, result);
    }
    close(pair[1]);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1)) die("listen");
    getsockname(listener, (struct sockaddr *)&at, &length);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) die("accept");
    no_delay(fd);
    SSL *tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    if (SSL_accept(tls) <= 0) die("TLS");
    for (;;) {
        tls_read(tls, &head, sizeof head);
        if (head.in > BIG_IN || head.out > BIG_OUT) exit(1);
        tls_read(tls, arguments, head.in);
        write_all(pair[0], &head, sizeof head);
        read_all(pair[0], &head, sizeof head);
        tls_write(tls, &head, sizeof head);
        tls_write(tls, result, head.out);
    }
}

static int upwards(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void client(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    char *buffer = calloc(1, BIG_IN), word[16];
    int fd = socket(AF_INET, SOCK_STREAM, 0), count;
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) die("connect");
    no_delay(fd);
    SSL *tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    if (SSL_connect(tls) <= 0) die("TLS");
    while (scanf("%15s %d", word, &count) == 2) {
        int big = !strcmp(word, "big");
        struct head head = {big ? BIG_IN : 0, big ? BIG_OUT : 0};
        double *took = calloc((size_t)count, sizeof *took), sum = 0;
        for (int i = 0; i < count; i++) {
            struct head back;
            double begun = now();
            tls_write(tls, &head, sizeof head);
            tls_write(tls, buffer, head.in);
            tls_read(tls, &back, sizeof back);
            tls_read(tls, buffer, back.out);
            sum += took[i] = now() - begun;
        }
        qsort(took, (size_t)count, sizeof *took, upwards);
        printf("%.9f %.9f\n", sum / count, took[count * 99 / 100]);
        fflush(stdout);
        free(took);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "server")) server(argv[2], argv[3]);
    if (argc == 3 && !strcmp(argv[1], "client")) client(atoi(argv[2]));
    return argc < 3;
}

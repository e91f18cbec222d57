/* Handlers of signals that are called by a thread of their own, where they may call anything: what meets the program is noted in a pipe, which
 * the thread reads. Not here: whether the library is initialized (src/signals.rs). */

#define _GNU_SOURCE /* pipe2 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

typedef void (*handler)(int);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handler handlers[NSIG];
static struct sigaction before[NSIG];
static char is_set[NSIG]; /* before is what is to come back */
static int ends[2] = {-1, -1};

static void note(int signal) {
    int kept = errno;
    unsigned char number = (unsigned char)signal;
    while (write(ends[1], &number, 1) < 0 && errno == EINTR) continue; /* full: enough of them are noted */
    errno = kept;
}

static void *call(void *unused) {
    unsigned char number;
    for (;;) {
        ssize_t came = read(ends[0], &number, 1);
        if (came < 0 && errno == EINTR) continue;
        if (came != 1) return unused;
        pthread_mutex_lock(&lock);
        handler known = is_set[number] ? handlers[number] : NULL;
        pthread_mutex_unlock(&lock);
        if (known) known(number);
    }
}

/* The thread takes no signals itself: a handler that waits would keep those back that others could be met by. */
static int begin(void) {
    pthread_t thread;
    sigset_t all, kept;
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    int error = pthread_create(&thread, NULL, call, NULL);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    if (error == 0) {
        pthread_detach(thread);
        return 0;
    }
    close(ends[0]);
    close(ends[1]);
    ends[0] = ends[1] = -1;
    return error;
}

/* Those that are about what a thread just did, or go on with all. */
static int is_direct(int signal) {
    switch (signal) {
    case SIGILL: case SIGTRAP: case SIGABRT: case SIGBUS: case SIGFPE: case SIGSEGV: case SIGPIPE: case SIGCONT: case SIGSYS: return 1;
    default: return 0;
    }
}

/* 0, or the number of an error. */
static int set(int signal, handler to) {
    struct sigaction action = {.sa_flags = SA_RESTART}, old;
    int noted = to != SIG_DFL && to != SIG_IGN && !is_direct(signal);
    if (noted && ends[1] < 0) {
        int error = begin();
        if (error) return error;
    }
    sigemptyset(&action.sa_mask);
    action.sa_handler = noted ? note : to;
    handler then = handlers[signal];
    handlers[signal] = noted ? to : NULL;
    if (sigaction(signal, &action, &old) != 0) {
        handlers[signal] = then;
        return errno;
    }
    if (!is_set[signal]) before[signal] = old;
    is_set[signal] = 1;
    return 0;
}

int kumiko_gridrpc_signal(int signal, handler to) {
    if (signal < 1 || signal >= NSIG || to == SIG_ERR) return EINVAL;
    pthread_mutex_lock(&lock);
    int error = set(signal, to);
    pthread_mutex_unlock(&lock);
    return error;
}

void kumiko_gridrpc_signals_back(void) {
    pthread_mutex_lock(&lock);
    for (int signal = 1; signal < NSIG; signal++) {
        if (is_set[signal]) sigaction(signal, &before[signal], NULL);
        is_set[signal] = 0;
    }
    pthread_mutex_unlock(&lock);
}

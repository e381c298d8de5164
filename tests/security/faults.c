/* Makes one call that writes fail, or ends the process at it. Loaded with LD_PRELOAD; see faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { NOTHING, KILL, NO_SPACE, IO_ERROR };

enum { RECORDED = 4096 };

static long armed_at = 0, calls = 0;
static int mode = NOTHING, full = 0;
static char kinds[RECORDED];

/* Count calls from now on, in this process; the one with this number fails. 0 only counts. */
void faults_arm(long at, int how) { armed_at = at; mode = how; calls = 0; full = 0; __sync_synchronize(); }
long faults_calls(void) { return calls; }

/* A letter for each call: what kind of call it was. */
const char *faults_kinds(void) { return kinds; }

static int armed(void) { return mode != NOTHING; }

/* Whether this call fails: 1 with errno set; a disk that is full stays so for what needs space. */
static int fails(char kind, int needs_space) {
    long number = __sync_add_and_fetch(&calls, 1);
    if (number <= RECORDED) kinds[number - 1] = kind;
    if (full && needs_space) { errno = ENOSPC; return 1; }
    if (number != armed_at) return 0;
    if (mode == KILL) { kill(getpid(), SIGKILL); for (;;) pause(); }
    if (mode == NO_SPACE) { full = 1; errno = ENOSPC; return 1; }
    errno = EIO;
    return 1;
}

static int regular(int fd) {
    struct stat state;
    return fstat(fd, &state) == 0 && S_ISREG(state.st_mode);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The call at which the process is killed has written half: a record is torn. */
static size_t torn(size_t size) { return mode == KILL && calls + 1 == armed_at ? size / 2 : 0; }

ssize_t write(int fd, const void *data, size_t size) {
    if (armed() && regular(fd)) {
        if (torn(size)) NEXT(write)(fd, data, torn(size));
        if (fails('w', 1)) return -1;
    }
    return NEXT(write)(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    if (armed() && regular(fd)) {
        if (torn(size)) NEXT(pwrite64)(fd, data, torn(size), at);
        if (fails('p', 1)) return -1;
    }
    return NEXT(pwrite64)(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

#define OF_DESCRIPTOR(name, kind) int name(int fd) { return armed() && fails(kind, 0) ? -1 : NEXT(name)(fd); }
OF_DESCRIPTOR(fsync, 's')
OF_DESCRIPTOR(fdatasync, 'd')
OF_DESCRIPTOR(syncfs, 'f')

int ftruncate64(int fd, off64_t size) { return armed() && fails('t', 0) ? -1 : NEXT(ftruncate64)(fd, size); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int rename(const char *from, const char *to) { return armed() && fails('r', 1) ? -1 : NEXT(rename)(from, to); }
int mkdir(const char *path, mode_t bits) { return armed() && fails('m', 1) ? -1 : NEXT(mkdir)(path, bits); }

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags) {
    return armed() && fails('R', 1) ? -1 : NEXT(renameat2)(from_at, from, to_at, to, flags);
}

#define OPENS(name)                                                              \
    int name(const char *path, int flags, ...) {                                 \
        va_list more;                                                            \
        va_start(more, flags);                                                   \
        mode_t bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;  \
        va_end(more);                                                            \
        if (armed() && (flags & O_CREAT) && fails('o', 1)) return -1;                 \
        return NEXT(name)(path, flags, bits);                                    \
    }
OPENS(open)
OPENS(open64)

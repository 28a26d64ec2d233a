/* A file system that can be hurt, between one process and its disk; loaded with LD_PRELOAD, built by shim.py.

   It watches the calls that write, sync, name or cut files under one folder, and what is sent to others over TCP. Armed
   (by a function here, or by the file AMENDS_SHIM_CONTROL that is mapped and may be written from outside) it
     - ends the process at the n-th such call: before it, in its middle (half of the bytes), or after it,
     - refuses writes and syncs with an error for as long as it is told to,
     - makes syncs slow,
     - keeps a journal of every call, out of which disk.py makes what is left after a power cut.
   Unarmed it does nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 4096
enum { CREATE = 1, WRITE, CUT, SYNC, RENAME, UNLINK, MKDIR, NOTE, LINK, LOST };

struct control { /* the same in shim.py */
    volatile int32_t refuse;  /* errno of refused calls, 0 = none */
    volatile int32_t which;   /* 1 writes, 2 syncs, 4 naming */
    volatile int32_t slow_ms; /* how long a sync takes */
    volatile int32_t refused; /* how often something was refused */
    volatile int32_t after;   /* so many calls go well first */
    volatile int32_t most;    /* so many are refused, 0 = all */
};

static struct control own, *control = &own;
static char folder[PATH_MAX];
static size_t folder_size;
static char watched[FILES];
static char names[FILES][512];
static long kill_at, passed;
static int kill_how, journal = -1, counted = 15; /* the classes that are counted; 8 is what is sent */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("AMENDS_SHIM_CONTROL"), *place = getenv("AMENDS_SHIM_FOLDER");
    if (path) {
        int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
        if (file >= 0) {
            void *found = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            if (found != MAP_FAILED) control = found;
            syscall(SYS_close, file);
        }
    }
    if (place) {
        snprintf(folder, sizeof folder, "%s", place);
        folder_size = strlen(folder);
    }
}

/* -- armed by the process itself -- */

void shim_arm(const char *place, long at, int how, int classes) {
    snprintf(folder, sizeof folder, "%s", place);
    folder_size = strlen(folder);
    passed = 0, kill_at = at, kill_how = how, counted = classes;
}

long shim_passed(void) { return passed; }
struct control *shim_control(void) { return control; }

void shim_journal(const char *path) {
    journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void put(int kind, uint64_t file, int64_t at, const char *name, const void *data, uint64_t size) {
    if (journal < 0) return;
    uint32_t length = (uint32_t)strlen(name);
    struct __attribute__((packed)) { uint8_t kind; uint64_t file; int64_t at; uint32_t name; uint64_t size; } head = {
        (uint8_t)kind, file, at, length, size};
    syscall(SYS_write, journal, &head, sizeof head);
    syscall(SYS_write, journal, name, length);
    if (size) syscall(SYS_write, journal, data, size);
}

void shim_note(const char *text) {
    pthread_mutex_lock(&door);
    put(NOTE, 0, 0, text, NULL, 0);
    pthread_mutex_unlock(&door);
}

/* -- what every watched call passes -- */

static void die(void) { syscall(SYS_kill, (pid_t)syscall(SYS_getpid), SIGKILL); for (;;) pause(); }

static int in_place(const char *path, char *full) {
    if (!folder_size || !path) return 0;
    if (path[0] != '/') {
        char here[1024];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(full, PATH_MAX, "%s/%.2000s", here, path);
    } else snprintf(full, PATH_MAX, "%s", path);
    return strncmp(full, folder, folder_size) == 0;
}

static int is_watched(int file) { return file >= 0 && file < FILES && watched[file]; }

static uint64_t inode_of(int file) {
    struct stat found;
    return fstat(file, &found) ? 0 : found.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

/* 1: the caller must die after its call; 2: in its middle. -1: refuse it, errno is set. */
static int pass(int class) {
    if (control->refuse && (control->which & class)) {
        int before = __sync_fetch_and_sub(&control->after, 1);
        if (before <= 0 && (!control->most || control->refused < control->most)) {
            __sync_fetch_and_add(&control->refused, 1);
            errno = control->refuse;
            return -1;
        }
    }
    if (class == 2 && control->slow_ms) usleep((useconds_t)control->slow_ms * 1000);
    if (!folder_size || !(counted & class)) return 0;
    long now = __sync_add_and_fetch(&passed, 1);
    if (!kill_at || now != kill_at) return 0;
    if (kill_how == 0) die();
    return kill_how == 1 ? 2 : 1;
}

static void remember(int file, const char *full, int is_new) {
    if (file < 0 || file >= FILES) return;
    watched[file] = 1;
    snprintf(names[file], sizeof names[file], "%.500s", full);
    if (is_new) put(CREATE, inode_of(file), 0, full, NULL, 0);
}

/* -- files -- */

static int opened(int folder_of, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    if (folder_of != AT_FDCWD && path && path[0] != '/') return (int)syscall(SYS_openat, folder_of, path, flags, mode);
    int mine = in_place(path, full);
    if (!mine) return (int)syscall(SYS_openat, folder_of, path, flags, mode);
    struct stat found;
    int is_new = (flags & O_CREAT) && lstat(full, &found) != 0, turn = is_new ? pass(4) : 0;
    if (turn < 0) return -1;
    pthread_mutex_lock(&door);
    int file = (int)syscall(SYS_openat, folder_of, path, flags, mode);
    if (file >= 0) {
        remember(file, full, is_new);
        if (!is_new && (flags & O_TRUNC)) put(CUT, inode_of(file), 0, full, NULL, 0);
    }
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return file;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }

int close(int file) {
    if (is_watched(file)) watched[file] = 0;
    return (int)syscall(SYS_close, file);
}

static ssize_t written(int file, const void *data, size_t size, off_t at, int has_place) {
    int turn = pass(1);
    if (turn < 0) return -1;
    if (turn == 2) size = size / 2;
    pthread_mutex_lock(&door);
    off_t place = has_place ? at : (off_t)syscall(SYS_lseek, file, 0, SEEK_CUR);
    ssize_t done = has_place ? syscall(SYS_pwrite64, file, data, size, at) : syscall(SYS_write, file, data, size);
    if (done > 0) put(WRITE, inode_of(file), place, "", data, (uint64_t)done);
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return done;
}

ssize_t write(int file, const void *data, size_t size) {
    if (!is_watched(file)) return syscall(SYS_write, file, data, size);
    return written(file, data, size, 0, 0);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    if (!is_watched(file)) return syscall(SYS_pwrite64, file, data, size, at);
    return written(file, data, size, at, 1);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { return pwrite(file, data, size, at); }

static int synced(int file, long number) {
    if (!is_watched(file)) return (int)syscall(number, file);
    int turn = pass(2);
    if (turn < 0) {
        put(LOST, inode_of(file), 0, names[file], NULL, 0);
        return -1;
    }
    pthread_mutex_lock(&door);
    put(SYNC, inode_of(file), 0, names[file], NULL, 0);
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return 0; /* what is on the disk is for the journal to say: no need to wait for the true one */
}
int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

int ftruncate(int file, off_t size) {
    if (!is_watched(file)) return (int)syscall(SYS_ftruncate, file, size);
    int turn = pass(1);
    if (turn < 0) return -1;
    pthread_mutex_lock(&door);
    int done = (int)syscall(SYS_ftruncate, file, size);
    if (!done) put(CUT, inode_of(file), size, "", NULL, 0);
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return done;
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

/* -- names -- */

static int renamed(const char *from, const char *to) {
    char full[PATH_MAX], other[PATH_MAX];
    int mine = in_place(from, full) && in_place(to, other);
    if (!mine) return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    int turn = pass(4);
    if (turn < 0) return -1;
    pthread_mutex_lock(&door);
    int done = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!done) put(RENAME, inode_at(other), 0, full, other, strlen(other));
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return done;
}
int rename(const char *from, const char *to) { return renamed(from, to); }
int renameat(int at, const char *from, int at_to, const char *to) {
    if (at != AT_FDCWD || at_to != AT_FDCWD) return (int)syscall(SYS_renameat2, at, from, at_to, to, 0);
    return renamed(from, to);
}

int link(const char *from, const char *to) {
    char full[PATH_MAX], other[PATH_MAX];
    if (!in_place(from, full) || !in_place(to, other)) return (int)syscall(SYS_link, from, to);
    int turn = pass(4);
    if (turn < 0) return -1;
    pthread_mutex_lock(&door);
    int done = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (!done) put(LINK, inode_at(other), 0, full, other, strlen(other));
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return done;
}
int linkat(int at, const char *from, int at_to, const char *to, int how) {
    if (at != AT_FDCWD || at_to != AT_FDCWD) return (int)syscall(SYS_linkat, at, from, at_to, to, how);
    return link(from, to);
}

int unlink(const char *path) {
    char full[PATH_MAX];
    if (!in_place(path, full)) return (int)syscall(SYS_unlink, path);
    if (inode_at(full) == 0) return (int)syscall(SYS_unlink, path);
    int turn = pass(4);
    if (turn < 0) return -1;
    pthread_mutex_lock(&door);
    int done = (int)syscall(SYS_unlink, path);
    if (!done) put(UNLINK, 0, 0, full, NULL, 0);
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return done;
}

int mkdir(const char *path, mode_t mode) {
    char full[PATH_MAX];
    if (!in_place(path, full)) return (int)syscall(SYS_mkdir, path, mode);
    int turn = pass(4);
    if (turn < 0) return -1;
    pthread_mutex_lock(&door);
    int done = (int)syscall(SYS_mkdir, path, mode);
    if (!done) put(MKDIR, 0, 0, full, NULL, 0);
    pthread_mutex_unlock(&door);
    if (turn > 0) die();
    return done;
}

int posix_fallocate(int file, off_t at, off_t size) {
    if (is_watched(file)) {
        int turn = pass(1);
        if (turn < 0) return errno;
        if (turn > 0) die();
    }
    return syscall(SYS_fallocate, file, 0, at, size) ? errno : 0;
}
int posix_fallocate64(int file, off64_t at, off64_t size) { return posix_fallocate(file, at, size); }

/* -- what leaves the process -- */

static int leaves(int file) {
    struct sockaddr_storage other;
    socklen_t size = sizeof other;
    if (!(counted & 8) || !folder_size) return 0;
    if (syscall(SYS_getpeername, file, &other, &size)) return 0;
    return other.ss_family == AF_INET || other.ss_family == AF_INET6;
}

ssize_t send(int file, const void *data, size_t size, int flags) {
    int turn = leaves(file) ? pass(8) : 0;
    ssize_t done = syscall(SYS_sendto, file, data, turn == 2 ? size / 2 : size, flags, NULL, 0);
    if (turn > 0) die();
    return done;
}
ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    int turn = leaves(file) ? pass(8) : 0;
    ssize_t done = syscall(SYS_sendmsg, file, message, flags);
    if (turn > 0) die();
    return done;
}

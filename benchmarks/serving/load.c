/* An HTTP/1.1 load client for one core: epoll, keep-alive, one request at a time on a connection.

   load PORT REQUESTS OUT CONNECTIONS SECONDS RATE PATIENCE SEED

   RATE 0 is a closed loop: every connection asks again as soon as it was answered. Otherwise requests are due at the
   times of a Poisson process of RATE a second, wait for a free connection where there is none, and their latency runs
   from the time they were due: a slow server cannot slow the clock down (Gil Tene's "coordinated omission"). One that
   found no free connection for PATIENCE seconds is given up, as a caller's pool does; 0 waits for ever.

   REQUESTS: whole HTTP requests, each behind its length (uint32); connection i sends the one of index i mod their count.
   OUT.records: a struct record (three float64) for each request, those never sent or answered with status 0.
   OUT.bodies: for each connection the last body it was given, behind its length (uint32).
   stdout: one line of JSON. Exit status 1 where the server cannot be reached or memory is out.
*/
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, FIRST_BUFFER_BYTES = 16384 };
static const double GRACE_S = 0.5;  /* how long answers are awaited after the last request was due */
static const double SPIN_S = 0.002; /* a sleep ends up to a millisecond late, so none is begun this close to a send */

struct bytes { char *data; uint32_t length; };
struct record { double due_s, latency_s, status; };

struct connection {
    int socket, busy, status;
    double due_s;
    const struct bytes *request;
    size_t sent, received, capacity, head, whole; /* whole: bytes of head and body, 0 while unknown */
    int chunked, closing;
    char *buffer;
    struct bytes body;
};

static int port, epoll;
static double started_s, patience_s;
static struct record *records;
static size_t record_count, record_capacity, answered, drops, waited;
static double *due;          /* a queue of due times that found no free connection */
static size_t due_first, due_end, due_capacity;

static void die(const char *what) { perror(what); exit(1); }

static void *grown(void *memory, size_t bytes) {
    void *larger = realloc(memory, bytes);
    if (larger == NULL) die("memory");
    return larger;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9 - started_s;
}

static uint64_t random_state;

static double exponential(double mean) { /* xorshift64*, then inversion */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    double uniform = (double)((random_state * 2685821657736338717ULL) >> 11) * 0x1.0p-53;
    return -mean * log1p(-uniform);
}

static void note(double due_s, double latency_s, int status) {
    if (record_count == record_capacity) {
        record_capacity = record_capacity ? 2 * record_capacity : 65536;
        records = grown(records, record_capacity * sizeof *records);
    }
    records[record_count++] = (struct record){due_s, latency_s, status};
}

static void open_connection(struct connection *each) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    each->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (each->socket < 0) die("socket");
    if (connect(each->socket, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(each->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(each->socket, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, each->socket, &event)) die("epoll_ctl");
}

static void reopen(struct connection *each) {
    close(each->socket);
    open_connection(each);
}

static void write_request(struct connection *each) {
    while (each->sent < each->request->length) {
        ssize_t count = write(each->socket, each->request->data + each->sent, each->request->length - each->sent);
        if (count < 0) {
            if (errno != EAGAIN) return; /* the read that follows sees why */
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = each};
            epoll_ctl(epoll, EPOLL_CTL_MOD, each->socket, &event);
            return;
        }
        each->sent += (size_t)count;
    }
}

static void ask(struct connection *each, double due_s) {
    each->busy = 1;
    each->due_s = due_s;
    each->sent = each->received = each->head = each->whole = 0;
    each->chunked = each->closing = 0;
    write_request(each);
}

static const char *header(const struct connection *each, const char *name) {
    const char *at = each->buffer, *end = each->buffer + each->head - 2;
    size_t length = strlen(name);
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL && ++at < end)
        if ((size_t)(end - at) > length && strncasecmp(at, name, length) == 0 && at[length] == ':') {
            at += length + 1;
            return at + strspn(at, " ");
        }
    return NULL;
}

static void read_head(struct connection *each) {
    const char *end = memmem(each->buffer, each->received, "\r\n\r\n", 4);
    if (end == NULL) return;
    each->head = (size_t)(end - each->buffer) + 4;
    each->status = each->head > 12 ? atoi(each->buffer + 9) : 0;
    const char *length = header(each, "content-length"), *close = header(each, "connection");
    each->chunked = header(each, "transfer-encoding") != NULL;
    each->closing = close != NULL && strncasecmp(close, "close", 5) == 0;
    if (!each->chunked) each->whole = each->head + (length ? strtoul(length, NULL, 10) : 0);
}

static int complete(struct connection *each) {
    if (!each->head) read_head(each);
    if (!each->head) return 0;
    /* no answer of a model holds these bytes but at its end */
    if (each->chunked && each->received >= each->head + 5 &&
        memcmp(each->buffer + each->received - 5, "0\r\n\r\n", 5) == 0)
        each->whole = each->received;
    return each->whole && each->received >= each->whole;
}

static void keep_body(struct connection *each) {
    each->body.length = (uint32_t)(each->whole - each->head);
    each->body.data = grown(each->body.data, each->body.length + 1);
    memcpy(each->body.data, each->buffer + each->head, each->body.length);
}

/* Closed by the server: an idle connection loses nothing. Give whether a busy one became free. */
static int dropped(struct connection *each) {
    int was_busy = each->busy;
    if (was_busy) {
        note(each->due_s, now() - each->due_s, 0);
        drops++;
    }
    each->busy = 0;
    reopen(each);
    return was_busy;
}

/* Give whether the connection became free. */
static int read_answer(struct connection *each) {
    if (each->received == each->capacity) {
        each->capacity = each->capacity ? 2 * each->capacity : FIRST_BUFFER_BYTES;
        each->buffer = grown(each->buffer, each->capacity);
    }
    ssize_t count = read(each->socket, each->buffer + each->received, each->capacity - each->received);
    if (count < 0 && errno == EAGAIN) return 0;
    if (count <= 0) return dropped(each);
    each->received += (size_t)count;
    if (!each->busy || !complete(each)) return 0;
    note(each->due_s, now() - each->due_s, each->status);
    each->busy = 0;
    answered++;
    if (each->status == 200) keep_body(each);
    if (each->closing) reopen(each);
    return 1;
}

static void wait_in_line(double due_s) {
    if (due_end == due_capacity) {
        due_capacity = due_capacity ? 2 * due_capacity : 65536;
        due = grown(due, due_capacity * sizeof *due);
    }
    due[due_end++] = due_s;
    waited++;
}

static int next_in_line(double time_s) {
    for (; due_first < due_end && time_s - due[due_first] > patience_s; due_first++)
        note(due[due_first], time_s - due[due_first], 0);
    return due_first < due_end;
}

static struct bytes *read_requests(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    struct bytes *requests = NULL;
    uint32_t length;
    if (file == NULL) die(path);
    for (*count = 0; fread(&length, sizeof length, 1, file) == 1; ++*count) {
        requests = grown(requests, (*count + 1) * sizeof *requests);
        requests[*count] = (struct bytes){grown(NULL, length), length};
        if (fread(requests[*count].data, 1, length, file) != length) die(path);
    }
    fclose(file);
    if (*count == 0) { fprintf(stderr, "%s: no request\n", path); exit(1); }
    return requests;
}

static FILE *created(const char *out, const char *suffix) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", out, suffix);
    FILE *file = fopen(path, "wb");
    if (file == NULL) die(path);
    return file;
}

static void save(const char *out, struct connection *connections, size_t count) {
    FILE *file = created(out, ".records");
    fwrite(records, sizeof *records, record_count, file);
    if (fclose(file)) die("records");
    file = created(out, ".bodies");
    for (size_t i = 0; i < count; i++) {
        fwrite(&connections[i].body.length, sizeof(uint32_t), 1, file);
        fwrite(connections[i].body.data, 1, connections[i].body.length, file);
    }
    if (fclose(file)) die("bodies");
}

static void handle(struct connection *each, uint32_t events, double ends_s, double rate, struct connection **idle,
                   size_t *idle_count) {
    if (events & EPOLLOUT) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = each};
        epoll_ctl(epoll, EPOLL_CTL_MOD, each->socket, &event);
        write_request(each);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || !read_answer(each)) return;
    double time_s = now();
    if (rate == 0 && time_s < ends_s) ask(each, time_s);
    else if (next_in_line(time_s)) ask(each, due[due_first++]);
    else idle[(*idle_count)++] = each;
}

static int patience_ms(double rate, double time_s, double next_s, double ends_s) {
    if (rate == 0 || time_s >= ends_s) return 10;
    double left_s = next_s - time_s - SPIN_S;
    return left_s > 0 ? (int)(left_s * 1e3) : 0;
}

static void drive(struct connection *connections, size_t count, double seconds, double rate) {
    struct connection **idle = grown(NULL, count * sizeof *idle);
    size_t idle_count = 0;
    struct epoll_event events[EVENTS];
    double next_s = rate > 0 ? exponential(1 / rate) : seconds;
    for (size_t i = count; i-- > 0;)
        if (rate > 0) idle[idle_count++] = &connections[i];
        else ask(&connections[i], now());
    for (;;) {
        double time_s = now();
        for (; rate > 0 && next_s <= time_s && next_s < seconds; next_s += exponential(1 / rate))
            if (idle_count) ask(idle[--idle_count], next_s);
            else wait_in_line(next_s);
        if (time_s >= seconds && (idle_count == count || time_s >= seconds + GRACE_S)) break;
        int ready = epoll_wait(epoll, events, EVENTS, patience_ms(rate, time_s, next_s, seconds));
        for (int i = 0; i < ready; i++)
            handle(events[i].data.ptr, events[i].events, seconds, rate, idle, &idle_count);
    }
    free(idle);
}

int main(int argc, char **argv) {
    if (argc != 9) { fprintf(stderr, "load PORT REQUESTS OUT CONNECTIONS SECONDS RATE PATIENCE SEED\n"); return 2; }
    port = atoi(argv[1]);
    size_t request_count, count = strtoul(argv[4], NULL, 10);
    double seconds = atof(argv[5]), rate = atof(argv[6]);
    patience_s = atof(argv[7]) > 0 ? atof(argv[7]) : HUGE_VAL;
    random_state = strtoull(argv[8], NULL, 10) * 2 + 1;
    struct bytes *requests = read_requests(argv[2], &request_count);
    struct connection *connections = calloc(count, sizeof *connections);
    if (connections == NULL || (epoll = epoll_create1(0)) < 0) die("start");
    for (size_t i = 0; i < count; i++) {
        connections[i].request = &requests[i % request_count];
        open_connection(&connections[i]);
    }
    started_s = now();
    drive(connections, count, seconds, rate);
    double wall_s = now();
    for (size_t i = 0; i < count; i++)
        if (connections[i].busy) note(connections[i].due_s, wall_s - connections[i].due_s, 0);
    for (; due_first < due_end; due_first++) note(due[due_first], wall_s - due[due_first], 0);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    save(argv[3], connections, count);
    printf("{\"requests\": %zu, \"answered\": %zu, \"dropped\": %zu, \"waited\": %zu, \"wall_s\": %.6f, \"cpu_s\": %.6f}\n",
           record_count, answered, drops, waited, wall_s, cpu_s);
    return 0;
}

/* A stand-in for NVIDIA's libnvidia-ml.so.1.

   It reads the file named by NVML_STANDIN whenever that has changed, one fact a line:

     driver 580.95.05          the version it reports
     error SYMBOL CODE         before the first card: the function fails, for all
     sleep SYMBOL SECONDS      ... or takes so long
     card                      the facts that follow are the next card's
     lost                      every call about the card answers "GPU is lost"
     text KEY WORDS            uuid, name, pci ("00000000:65:00.0")
     number KEY N              total, free, util, ...: a key that is missing is "not supported"
     process LIST PID BYTES    LIST is compute, graphics or mps; BYTES may be "-": not known
     grow N                    so many times the list has outgrown the room between two calls
     xid SERIAL N              this XID error has happened, after those of lower serials; a program
                               hears of those alone that come after it has registered for them
*/

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15,
};

#define EXPORT __attribute__((visibility("default")))
#define MAX_CARDS 16
#define MAX_FACTS 80
#define MAX_FAULTS 16
#define MAX_PROCESSES 128
#define MAX_XIDS 32

typedef void *device;
typedef struct { char key[64]; long long value; } fact;
typedef struct { char symbol[64]; int code; double seconds; } fault;
typedef struct { char list[16]; unsigned pid; unsigned long long used; } process;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_info;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; unsigned sensor; int degrees; } temperature_v1;
typedef struct { unsigned version; int degrees; } margin_v1;
typedef struct { long long serial, number; } xid;
typedef struct { device d; unsigned long long type, data; unsigned gi, ci; } event;
typedef struct { unsigned max, high, partial, low, none; } spare_rows;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_info;

typedef struct {
    int lost;
    long long grow;
    char uuid[96], name[96], pci[96];
    fact facts[MAX_FACTS];
    process processes[MAX_PROCESSES];
    fault faults[MAX_FAULTS];
    xid xids[MAX_XIDS];
    int n_facts, n_processes, n_faults, n_xids;
} card;

static struct {
    char driver[80];
    card cards[MAX_CARDS];
    int n_cards;
    card all; /* faults of every card */
} state;

static struct stat seen;
static long long grown[MAX_CARDS];
static long long heard[MAX_CARDS];     /* the serial of the last XID that was told or is too old */
static int is_registered[MAX_CARDS];

static void parse(char *line) {
    char a[128], b[128], c[128];
    card *now = state.n_cards ? &state.cards[state.n_cards - 1] : &state.all;
    int words = sscanf(line, "%127s %127s %127s", a, b, c);
    if (words < 1) return;
    if (!strcmp(a, "driver")) snprintf(state.driver, sizeof state.driver, "%.79s", b);
    else if (!strcmp(a, "card") && state.n_cards < MAX_CARDS) state.n_cards++;
    else if (!strcmp(a, "lost")) now->lost = 1;
    else if (!strcmp(a, "grow")) now->grow = atoll(b);
    else if (!strcmp(a, "text")) {
        char *words_of = strstr(line, b) + strlen(b) + 1;
        words_of[strcspn(words_of, "\n")] = 0;
        char *to = !strcmp(b, "uuid") ? now->uuid : !strcmp(b, "pci") ? now->pci : now->name;
        snprintf(to, sizeof now->name, "%.95s", words_of);
    } else if (!strcmp(a, "number") && now->n_facts < MAX_FACTS) {
        fact *f = &now->facts[now->n_facts++];
        snprintf(f->key, sizeof f->key, "%.63s", b);
        f->value = atoll(c);
    } else if ((!strcmp(a, "error") || !strcmp(a, "sleep")) && now->n_faults < MAX_FAULTS) {
        fault *f = &now->faults[now->n_faults++];
        snprintf(f->symbol, sizeof f->symbol, "%.63s", b);
        if (*a == 'e') f->code = atoi(c);
        else f->seconds = atof(c);
    } else if (!strcmp(a, "xid") && now->n_xids < MAX_XIDS) {
        now->xids[now->n_xids++] = (xid){atoll(b), atoll(c)};
    } else if (!strcmp(a, "process") && now->n_processes < MAX_PROCESSES) {
        process *p = &now->processes[now->n_processes++];
        char used[64] = "-";
        sscanf(line, "%*s %15s %u %63s", p->list, &p->pid, used);
        p->used = *used == '-' ? ~0ULL : strtoull(used, NULL, 10);
    }
}

/* Whether there is a state; the file is replaced, never changed in place. */
static int load(void) {
    const char *path = getenv("NVML_STANDIN");
    struct stat now;
    if (!path || stat(path, &now)) return 0;
    if (now.st_ino == seen.st_ino && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec &&
        now.st_mtim.tv_sec == seen.st_mtim.tv_sec)
        return 1;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    memset(&state, 0, sizeof state);
    char line[512];
    while (fgets(line, sizeof line, file)) parse(line);
    fclose(file);
    seen = now;
    return 1;
}

static int faults_of(const card *c, const char *symbol) {
    for (int i = 0; i < c->n_faults; i++) {
        const fault *f = &c->faults[i];
        if (strcmp(f->symbol, symbol)) continue;
        if (f->code) return f->code;
        struct timespec left = {(time_t)f->seconds, (long)((f->seconds - (time_t)f->seconds) * 1e9)};
        while (nanosleep(&left, &left)) continue;
    }
    return SUCCESS;
}

static int enter(const char *symbol) {
    return load() ? faults_of(&state.all, symbol) : DRIVER_NOT_LOADED;
}

static int enter_card(const char *symbol, device d, card **out) {
    int code = enter(symbol);
    if (code) return code;
    intptr_t index = (intptr_t)d - 1;
    if (index < 0 || index >= state.n_cards) return GPU_IS_LOST;
    *out = &state.cards[index];
    if ((*out)->lost) return GPU_IS_LOST;
    return faults_of(*out, symbol);
}

static int get(const card *c, const char *key, long long *value) {
    for (int i = 0; i < c->n_facts; i++)
        if (!strcmp(c->facts[i].key, key)) return *value = c->facts[i].value, SUCCESS;
    return NOT_SUPPORTED;
}

#define ENTER_CARD                                        \
    card *c;                                              \
    int code = enter_card(__func__, d, &c);               \
    if (code) return code

#define NUMBER(symbol, type, key)                         \
    EXPORT int symbol(device d, type *out) {              \
        ENTER_CARD;                                       \
        long long value;                                  \
        if ((code = get(c, key, &value))) return code;    \
        *out = (type)value;                               \
        return SUCCESS;                                   \
    }

NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit")
NUMBER(nvmlDeviceGetFanSpeed, unsigned, "fan")
NUMBER(nvmlDeviceGetPerformanceState, unsigned, "pstate")
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, "persistence")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_gen")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_gen_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_width_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replays")
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
NUMBER(nvmlDeviceGetNumaNodeId, int, "numa_node")

EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return enter(__func__); }
EXPORT int nvmlInit_v2(void) { return enter(__func__); }
EXPORT int nvmlShutdown(void) { return SUCCESS; }

EXPORT const char *nvmlErrorString(int code) {
    static char text[64];
    snprintf(text, sizeof text, "Error %d of the stand-in", code);
    return text;
}

static int copy(char *out, unsigned length, const char *text) {
    if (!*text) return NOT_SUPPORTED;
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    int code = enter(__func__);
    return code ? code : copy(out, length, state.driver);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    int code = enter(__func__);
    *out = 13000;
    return code;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = enter(__func__);
    *out = (unsigned)state.n_cards;
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) {
    int code = enter(__func__);
    if (code) return code;
    if (index >= (unsigned)state.n_cards) return INVALID_ARGUMENT;
    *out = (device)(intptr_t)(index + 1);
    return state.cards[index].lost ? GPU_IS_LOST : faults_of(&state.cards[index], __func__);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, device *out) {
    int code = enter(__func__);
    for (int i = 0; !code && i < state.n_cards; i++)
        if (!strcmp(state.cards[i].uuid, uuid)) return *out = (device)(intptr_t)(i + 1), SUCCESS;
    return code ? code : NOT_FOUND;
}

EXPORT int nvmlDeviceGetName(device d, char *out, unsigned length) {
    ENTER_CARD;
    return copy(out, length, c->name);
}

EXPORT int nvmlDeviceGetUUID(device d, char *out, unsigned length) {
    ENTER_CARD;
    return copy(out, length, c->uuid);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor) {
    ENTER_CARD;
    long long a, b;
    if (get(c, "cc_major", &a) || get(c, "cc_minor", &b)) return NOT_SUPPORTED;
    *major = (int)a;
    *minor = (int)b;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(device d, pci_info *out) {
    ENTER_CARD;
    if (sscanf(c->pci, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3)
        return NOT_SUPPORTED;
    return copy(out->bus_id, sizeof out->bus_id, c->pci);
}

EXPORT int nvmlDeviceGetMemoryInfo(device d, memory_v1 *out) {
    ENTER_CARD;
    long long total, free;
    memset(out, 0, sizeof *out);
    if (get(c, "total", &total) || get(c, "free", &free)) return NOT_SUPPORTED;
    /* The first version counts the reserve as used. */
    *out = (memory_v1){(unsigned long long)total, (unsigned long long)free,
                       (unsigned long long)(total - free)};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(device d, memory_v2 *out) {
    ENTER_CARD;
    long long total, free, reserved;
    if (get(c, "total", &total) || get(c, "free", &free) || get(c, "reserved", &reserved))
        return NOT_SUPPORTED;
    out->total = (unsigned long long)total;
    out->free = (unsigned long long)free;
    out->reserved = (unsigned long long)reserved;
    /* Some drivers count the reserve in "used" here, so nobody should read it. */
    out->used = (unsigned long long)(total - free);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(device d, utilization *out) {
    ENTER_CARD;
    long long gpu, memory;
    if (get(c, "util", &gpu) || get(c, "mem_util", &memory)) return NOT_SUPPORTED;
    *out = (utilization){(unsigned)gpu, (unsigned)memory};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperatureV(device d, temperature_v1 *out) {
    ENTER_CARD;
    long long degrees;
    if ((code = get(c, "temperature", &degrees))) return code;
    out->degrees = (int)degrees;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperature(device d, unsigned sensor, unsigned *out) {
    (void)sensor;
    ENTER_CARD;
    long long degrees;
    if ((code = get(c, "temperature", &degrees))) return code;
    *out = (unsigned)degrees;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMarginTemperature(device d, margin_v1 *out) {
    ENTER_CARD;
    long long degrees;
    if ((code = get(c, "margin", &degrees))) return code;
    out->degrees = (int)degrees;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperatureThreshold(device d, unsigned threshold, unsigned *out) {
    ENTER_CARD;
    long long degrees;
    const char *keys[] = {"shutdown_at", "slowdown_at"};
    if (threshold > 1) return NOT_SUPPORTED;
    if ((code = get(c, keys[threshold], &degrees))) return code;
    *out = (unsigned)degrees;
    return SUCCESS;
}

static int clock_of(const card *c, unsigned clock, const char *sm, const char *mem, unsigned *out) {
    long long mhz;
    int code = get(c, clock == 1 ? sm : clock == 2 ? mem : "", &mhz);
    if (!code) *out = (unsigned)mhz;
    return code;
}

EXPORT int nvmlDeviceGetClockInfo(device d, unsigned clock, unsigned *out) {
    ENTER_CARD;
    return clock_of(c, clock, "sm_clock", "mem_clock", out);
}

EXPORT int nvmlDeviceGetMaxClockInfo(device d, unsigned clock, unsigned *out) {
    ENTER_CARD;
    return clock_of(c, clock, "sm_clock_max", "mem_clock_max", out);
}

static int list(device d, const card *c, const char *name, unsigned *count, process_info *out) {
    unsigned found = 0;
    unsigned room = out ? *count : 0;
    intptr_t index = (intptr_t)d - 1;
    if (out && grown[index] < c->grow) {
        grown[index]++;
        *count = room + 1;
        return INSUFFICIENT_SIZE;
    }
    for (int i = 0; i < c->n_processes; i++) {
        const process *p = &c->processes[i];
        if (strcmp(p->list, name)) continue;
        if (found < room) out[found] = (process_info){p->pid, p->used, ~0U, ~0U};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *n, process_info *out) {
    ENTER_CARD;
    return list(d, c, "compute", n, out);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *n, process_info *out) {
    ENTER_CARD;
    return list(d, c, "graphics", n, out);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(device d, unsigned *n, process_info *out) {
    ENTER_CARD;
    return list(d, c, "mps", n, out);
}

EXPORT int nvmlDeviceGetTotalEccErrors(device d, unsigned kind, unsigned counter,
                                       unsigned long long *out) {
    ENTER_CARD;
    const char *keys[2][2] = {{"ecc_corrected", "ecc_uncorrected"},
                              {"ecc_corrected_ever", "ecc_uncorrected_ever"}};
    long long errors;
    if (kind > 1 || counter > 1) return INVALID_ARGUMENT;
    if ((code = get(c, keys[counter][kind], &errors))) return code;
    *out = (unsigned long long)errors;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRemappedRows(device d, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failed) {
    ENTER_CARD;
    long long a, b, p, f;
    if (get(c, "rows_corrected", &a) || get(c, "rows_uncorrected", &b) ||
        get(c, "rows_pending", &p) || get(c, "rows_failed", &f))
        return NOT_SUPPORTED;
    *corrected = (unsigned)a;
    *uncorrected = (unsigned)b;
    *pending = (unsigned)p;
    *failed = (unsigned)f;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRowRemapperHistogram(device d, spare_rows *out) {
    ENTER_CARD;
    long long none;
    if ((code = get(c, "rows_without_spare", &none))) return code;
    *out = (spare_rows){.max = 384, .none = (unsigned)none};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRetiredPages(device d, unsigned cause, unsigned *count,
                                     unsigned long long *addresses) {
    ENTER_CARD;
    long long pages;
    if ((code = get(c, cause ? "retired_double" : "retired_single", &pages))) return code;
    unsigned room = addresses ? *count : 0;
    *count = (unsigned)pages;
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) addresses[i] = 0x1000ULL * (i + 1);
    return SUCCESS;
}

NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "retired_pending")

EXPORT int nvmlDeviceGetMigMode(device d, unsigned *current, unsigned *pending) {
    ENTER_CARD;
    long long mode;
    if ((code = get(c, "mig", &mode))) return code;
    *current = *pending = (unsigned)mode;
    return SUCCESS;
}

EXPORT int nvmlEventSetCreate(void **set) { *set = &state; return enter(__func__); }

EXPORT int nvmlEventSetFree(void *set) {
    (void)set;
    memset(is_registered, 0, sizeof is_registered);
    return enter(__func__);
}

EXPORT int nvmlDeviceRegisterEvents(device d, unsigned long long types, void *set) {
    (void)set;
    ENTER_CARD;
    if (types != 8) return NOT_SUPPORTED;
    intptr_t index = (intptr_t)d - 1;
    is_registered[index] = 1;
    for (int i = 0; i < c->n_xids; i++)
        if (c->xids[i].serial > heard[index]) heard[index] = c->xids[i].serial;
    return SUCCESS;
}

EXPORT int nvmlEventSetWait_v2(void *set, event *out, unsigned milliseconds) {
    (void)set;
    int code = enter(__func__);
    if (code) return code;
    for (int index = 0; index < state.n_cards; index++) {
        const card *c = &state.cards[index];
        /* Real NVML says so of the whole set as soon as one of its cards is gone. */
        if (is_registered[index] && c->lost) return GPU_IS_LOST;
        for (int i = 0; is_registered[index] && i < c->n_xids; i++) {
            if (c->xids[i].serial <= heard[index]) continue;
            heard[index] = c->xids[i].serial;
            *out = (event){(device)(intptr_t)(index + 1), 8, (unsigned long long)c->xids[i].number,
                           ~0U, ~0U};
            return SUCCESS;
        }
    }
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left)) continue;
    return TIMEOUT;
}

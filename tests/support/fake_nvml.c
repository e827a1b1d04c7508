/* A stand-in for libnvidia-ml.so.1: GPUs as a text file describes them.
 *
 * The file named by FAKE_NVML has lines of a key and a value. `gpu.name X` holds for all GPUs, `gpu.3.name X` for the
 * one; `error.DeviceGetName 3` makes a function fail, `gpu.3.error.DeviceGetName 15` for one GPU, `gpu.3.error.* 15`
 * all functions; `hang.DeviceGetName 1` makes it never return, `crash.DeviceGetName 1` ends the process.
 * Compiled with -DOLD_DRIVER it lacks what came after 2020.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef void *Handle;

enum { INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };
#define MIG 1000

static struct { char key[80], value[120]; } table[400];
static int filled = 0;

static void load(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    filled = 0;
    while (file && filled < 400 && fscanf(file, "%79s %119[^\n]", table[filled].key, table[filled].value) == 2) filled++;
    if (file) fclose(file);
}

static const char *plain(const char *key) {
    for (int i = filled - 1; i >= 0; i--) if (!strcmp(table[i].key, key)) return table[i].value;
    return NULL;
}

static const char *text(int gpu, const char *key, const char *otherwise) {
    char own[120];
    snprintf(own, sizeof own, "gpu.%d.%s", gpu, key);
    const char *found = plain(own);
    snprintf(own, sizeof own, "gpu.%s", key);
    found = found ? found : plain(own);
    return found ? found : otherwise;
}

static u64 number(int gpu, const char *key, u64 otherwise) {
    const char *found = text(gpu, key, NULL);
    return found ? strtoull(found, NULL, 0) : otherwise;
}

static int count(void) { const char *n = plain("gpus"); return n ? atoi(n) : 0; }
static int index_of(Handle handle) { long n = (long)handle; return (int)(n >= MIG ? n / MIG : n) - 1; }
static int is_mig(Handle handle) { return (long)handle >= MIG; }

/* What the function `name` has to return instead of an answer; 0 if it works. */
static int trouble(int gpu, const char *name) {
    char key[120];
    snprintf(key, sizeof key, "hang.%s", name);
    if (plain(key)) for (;;) pause();
    snprintf(key, sizeof key, "crash.%s", name);
    if (plain(key)) abort();
    snprintf(key, sizeof key, "error.%s", name);
    if (plain(key)) return atoi(plain(key));
    if (gpu < 0) return 0;
    snprintf(key, sizeof key, "gpu.%d.hang.%s", gpu, name);
    if (plain(key)) for (;;) pause();
    snprintf(key, sizeof key, "gpu.%d.error.%s", gpu, name);
    if (plain(key)) return atoi(plain(key));
    snprintf(key, sizeof key, "gpu.%d.error.*", gpu);
    return plain(key) ? atoi(plain(key)) : 0;
}

#define TRY(gpu, name) do { int code = trouble(gpu, name); if (code) return code; } while (0)
#define HAS(gpu, key) do { if (!text(gpu, key, NULL)) return UNSUPPORTED; } while (0)

int nvmlInitWithFlags(u32 flags) { (void)flags; load(); TRY(-1, "Init"); return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "an error that the fake made"; }

int nvmlSystemGetDriverVersion(char *out, u32 size) {
    TRY(-1, "SystemGetDriverVersion");
    snprintf(out, size, "%s", plain("driver") ? plain("driver") : "570.86.15");
    return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    TRY(-1, "SystemGetCudaDriverVersion_v2");
    *out = plain("cuda") ? atoi(plain("cuda")) : 12080;
    return 0;
}
int nvmlDeviceGetCount_v2(u32 *out) { TRY(-1, "DeviceGetCount"); *out = (u32)count(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, Handle *out) {
    if ((int)index >= count()) return INVALID;
    TRY((int)index, "DeviceGetHandleByIndex");
    *out = (Handle)(long)(index + 1);
    return 0;
}

int nvmlDeviceGetUUID(Handle handle, char *out, u32 size) {
    int gpu = index_of(handle);
    TRY(gpu, "DeviceGetUUID");
    if (is_mig(handle)) snprintf(out, size, "MIG-fa5e%04d-0000-0000-0000-%012ld", gpu, (long)handle % MIG);
    else snprintf(out, size, "GPU-fa5e%04d-0000-0000-0000-000000000000", gpu);
    return 0;
}
int nvmlDeviceGetName(Handle handle, char *out, u32 size) {
    int gpu = index_of(handle);
    TRY(gpu, "DeviceGetName");
    snprintf(out, size, "%s%s", text(gpu, "name", "NVIDIA Fake"), is_mig(handle) ? " MIG 1g.10gb" : "");
    return 0;
}

typedef struct { char old[16]; u32 domain, bus, device, id, sub; char address[32]; } Pci;
static void address(int gpu, Pci *out) {
    /* A domain that no real machine has: the files below /sys must not answer for it. */
    memset(out, 0, sizeof *out);
    snprintf(out->address, sizeof out->address, "0000FA5E:%02X:00.0", gpu + 16);
    snprintf(out->old, sizeof out->old, "FA5E:%02X:00.0", gpu + 16);
}
int nvmlDeviceGetPciInfo_v3(Handle handle, Pci *out) {
    TRY(index_of(handle), "DeviceGetPciInfo");
    address(index_of(handle), out);
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor) {
    TRY(index_of(handle), "DeviceGetCudaComputeCapability");
    int both = (int)number(index_of(handle), "capability", 90);
    *major = both / 10, *minor = both % 10;
    return 0;
}

/* Memory is given in MiB. */
#define MIB 1048576ULL
static u64 total(Handle handle) {
    int gpu = index_of(handle);
    return MIB * (is_mig(handle) ? number(gpu, "mig_memory", 9728) : number(gpu, "memory", 81559));
}
int nvmlDeviceGetMemoryInfo(Handle handle, u64 *out) {
    TRY(index_of(handle), "DeviceGetMemoryInfo");
    u64 used = MIB * (number(index_of(handle), "used", 4) + number(index_of(handle), "reserved", 500));
    out[0] = total(handle), out[1] = total(handle) - used, out[2] = used;
    return 0;
}
#ifndef OLD_DRIVER
typedef struct { u32 version; u64 total, reserved, free, used; } Memory2;
int nvmlDeviceGetMemoryInfo_v2(Handle handle, Memory2 *out) {
    TRY(index_of(handle), "DeviceGetMemoryInfo_v2");
    u64 used = MIB * number(index_of(handle), "used", 4), reserved = MIB * number(index_of(handle), "reserved", 500);
    out->total = total(handle), out->used = used, out->reserved = reserved;
    out->free = out->total - used - reserved;
    return 0;
}
#endif

/* Functions that hand out one number. */
#define UINT(name, key, otherwise)                              \
    int nvmlDeviceGet##name(Handle handle, u32 *out) {          \
        TRY(index_of(handle), "DeviceGet" #name);               \
        *out = (u32)number(index_of(handle), key, otherwise);   \
        return 0;                                               \
    }
#define OPTIONAL(name, key)                                     \
    int nvmlDeviceGet##name(Handle handle, u32 *out) {          \
        TRY(index_of(handle), "DeviceGet" #name);               \
        HAS(index_of(handle), key);                             \
        *out = (u32)number(index_of(handle), key, 0);           \
        return 0;                                               \
    }
UINT(ComputeMode, "compute_mode", 0)
UINT(PersistenceMode, "persistence", 1)
UINT(PerformanceState, "state", 0)
UINT(PowerUsage, "power", 70000)
UINT(EnforcedPowerLimit, "power_limit", 700000)
UINT(PowerManagementDefaultLimit, "power_default", 700000)
UINT(CurrPcieLinkGeneration, "pcie", 5)
UINT(CurrPcieLinkWidth, "lanes", 16)
UINT(MaxPcieLinkGeneration, "pcie_max", 5)
UINT(MaxPcieLinkWidth, "lanes_max", 16)
UINT(PcieReplayCounter, "replays", 0)
OPTIONAL(RetiredPagesPendingStatus, "retiring")
#ifndef OLD_DRIVER
UINT(GpuMaxPcieLinkGeneration, "pcie_own", 5)
#endif

int nvmlDeviceGetUtilizationRates(Handle handle, u32 *out) {
    TRY(index_of(handle), "DeviceGetUtilizationRates");
    if (number(index_of(handle), "mig", 0)) return UNSUPPORTED;
    out[0] = (u32)number(index_of(handle), "busy", 0), out[1] = 0;
    return 0;
}
int nvmlDeviceGetEccMode(Handle handle, u32 *now, u32 *later) {
    TRY(index_of(handle), "DeviceGetEccMode");
    HAS(index_of(handle), "ecc");
    *now = *later = (u32)number(index_of(handle), "ecc", 1);
    return 0;
}
int nvmlDeviceGetTotalEccErrors(Handle handle, u32 kind, u32 counter, u64 *out) {
    (void)counter;
    TRY(index_of(handle), "DeviceGetTotalEccErrors");
    HAS(index_of(handle), "ecc");
    *out = number(index_of(handle), kind ? "uncorrected" : "corrected", 0);
    return 0;
}
int nvmlDeviceGetFieldValues(Handle handle, int n, void *values) {
    struct { u32 id, scope; long long time, took; u32 type, code; union { double d; u32 u; u64 l; } value; } *out = values;
    TRY(index_of(handle), "DeviceGetFieldValues");
    for (int i = 0; i < n; i++) {
        const char *key = out[i].id == 230 ? "recovery" : out[i].id == 91 ? "nvlinks" : "nvlink_speed";
        out[i].type = 1, out[i].code = text(index_of(handle), key, NULL) ? 0 : UNSUPPORTED;
        out[i].value.l = 0, out[i].value.u = (u32)number(index_of(handle), key, 0);
    }
    return 0;
}

static int reasons(Handle handle, const char *name, u64 *out) {
    TRY(index_of(handle), name);
    *out = number(index_of(handle), "reasons", 1);
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Handle handle, u64 *out) {
    return reasons(handle, "DeviceGetCurrentClocksThrottleReasons", out);
}
#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(Handle handle, u64 *out) {
    return reasons(handle, "DeviceGetCurrentClocksEventReasons", out);
}
int nvmlDeviceGetTemperatureV(Handle handle, u32 *out) {
    TRY(index_of(handle), "DeviceGetTemperatureV");
    out[2] = (u32)number(index_of(handle), "temperature", 34);
    return 0;
}
int nvmlDeviceGetRemappedRows(Handle handle, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    int gpu = index_of(handle);
    TRY(gpu, "DeviceGetRemappedRows");
    HAS(gpu, "ecc");
    *corrected = (u32)number(gpu, "rows_corrected", 0), *uncorrected = (u32)number(gpu, "rows_uncorrected", 0);
    *pending = (u32)number(gpu, "rows_pending", 0), *failed = (u32)number(gpu, "rows_failed", 0);
    return 0;
}
int nvmlDeviceGetMigMode(Handle handle, u32 *now, u32 *later) {
    TRY(index_of(handle), "DeviceGetMigMode");
    HAS(index_of(handle), "mig");
    *now = *later = (u32)number(index_of(handle), "mig", 0);
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Handle handle, u32 *out) {
    TRY(index_of(handle), "DeviceGetMaxMigDeviceCount");
    *out = 7;
    return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, u32 index, Handle *out) {
    TRY(index_of(handle), "DeviceGetMigDeviceHandleByIndex");
    if (index >= number(index_of(handle), "mig_instances", 0)) return NOT_FOUND;
    *out = (Handle)((long)handle * MIG + (long)index);
    return 0;
}
#endif
int nvmlDeviceGetTemperature(Handle handle, u32 sensor, u32 *out) {
    (void)sensor;
    TRY(index_of(handle), "DeviceGetTemperature");
    *out = (u32)number(index_of(handle), "temperature", 34);
    return 0;
}
int nvmlDeviceGetTemperatureThreshold(Handle handle, u32 which, u32 *out) {
    TRY(index_of(handle), "DeviceGetTemperatureThreshold");
    *out = which == 1 ? 90 : 95;
    return 0;
}
int nvmlDeviceGetClockInfo(Handle handle, u32 which, u32 *out) {
    TRY(index_of(handle), "DeviceGetClockInfo");
    *out = which == 1 ? (u32)number(index_of(handle), "clock", 345) : 2619;
    return 0;
}
int nvmlDeviceGetMaxClockInfo(Handle handle, u32 which, u32 *out) {
    TRY(index_of(handle), "DeviceGetMaxClockInfo");
    *out = which == 1 ? 1980 : 2619;
    return 0;
}

int nvmlDeviceGetNvLinkState(Handle handle, u32 link, u32 *out) {
    int gpu = index_of(handle);
    TRY(gpu, "DeviceGetNvLinkState");
    if (!text(gpu, "nvlinks", NULL)) return UNSUPPORTED;
    if (link >= number(gpu, "nvlinks", 0)) return INVALID;
    *out = link < number(gpu, "nvlinks_up", number(gpu, "nvlinks", 0));
    return 0;
}
int nvmlDeviceGetNvLinkVersion(Handle handle, u32 link, u32 *out) {
    (void)link;
    TRY(index_of(handle), "DeviceGetNvLinkVersion");
    *out = (u32)number(index_of(handle), "nvlink_version", 4);
    return 0;
}
/* `nvlink_peer` is the index of a GPU; without it the links lead to switches. */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle handle, u32 link, Pci *out) {
    int gpu = index_of(handle);
    TRY(gpu, "DeviceGetNvLinkRemotePciInfo");
    if (text(gpu, "nvlink_peer", NULL)) address((int)number(gpu, "nvlink_peer", 0), out);
    else address(100 + (int)link % 4, out);
    return 0;
}

/* Pairs: `path` where both are on one NUMA node, SYS where not; `p2p` is the status. */
int nvmlDeviceGetTopologyCommonAncestor(Handle one, Handle other, u32 *out) {
    TRY(index_of(one), "DeviceGetTopologyCommonAncestor");
    int same = number(index_of(one), "numa", 0) == number(index_of(other), "numa", 0);
    *out = same ? (u32)number(index_of(one), "path", 20) : 50;
    return 0;
}
int nvmlDeviceGetP2PStatus(Handle one, Handle other, u32 what, u32 *out) {
    (void)other;
    TRY(index_of(one), "DeviceGetP2PStatus");
    *out = what == 2 && !text(index_of(one), "nvlinks", NULL) ? 5 : (u32)number(index_of(one), "p2p", 0);
    return 0;
}
int nvmlDeviceGetMemoryAffinity(Handle handle, u32 size, u64 *out, u32 scope) {
    (void)scope;
    TRY(index_of(handle), "DeviceGetMemoryAffinity");
    memset(out, 0, size * sizeof *out);
    out[0] = 1ULL << number(index_of(handle), "numa", 0);
    return 0;
}
int nvmlDeviceGetCpuAffinity(Handle handle, u32 size, u64 *out) {
    TRY(index_of(handle), "DeviceGetCpuAffinity");
    memset(out, 0, size * sizeof *out);
    out[0] = number(index_of(handle), "cpus", 0xffffffffffffffffULL);
    return 0;
}

/* One process: `pid`, holding `used`; and one that draws, `drawing_pid`. */
static int processes(int gpu, const char *who, u32 *n, void *out, size_t size) {
    u32 there = text(gpu, who, NULL) ? 1 : 0, room = *n;
    *n = there;
    if (there > room) return TOO_SMALL;
    if (there) {
        memset(out, 0, size);
        *(u32 *)out = (u32)number(gpu, who, 0);
        *(u64 *)((char *)out + 8) = MIB * number(gpu, "used", 4);
    }
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses(Handle handle, u32 *n, void *out) {
    TRY(index_of(handle), "DeviceGetComputeRunningProcesses");
    return processes(index_of(handle), "pid", n, out, 16);
}
#ifndef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, u32 *n, void *out) {
    TRY(index_of(handle), "DeviceGetComputeRunningProcesses_v3");
    return processes(index_of(handle), "pid", n, out, 24);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle handle, u32 *n, void *out) {
    TRY(index_of(handle), "DeviceGetGraphicsRunningProcesses_v3");
    return processes(index_of(handle), "drawing_pid", n, out, 24);
}
#endif

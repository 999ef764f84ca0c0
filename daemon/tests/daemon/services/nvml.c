/* A driver library with two GPUs, for the daemon to load instead of NVIDIA's: the second has
 * fallen off its bus. Only what the daemon asks is answered. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, TIMEOUT = 10, GPU_IS_LOST = 15 };

enum { XID_EVENT = 8 };

struct event {
  void *device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

struct memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct utilization {
  unsigned gpu, memory;
};

static int device;

int nvmlInit_v2(void) { return SUCCESS; }

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
  snprintf(version, length, "570.86.15");
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 2;
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  *handle = &device;
  return index == 0 ? SUCCESS : GPU_IS_LOST;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
  (void)handle;
  snprintf(name, length, "NVIDIA H100 80GB HBM3");
  return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
  (void)handle;
  snprintf(uuid, length, "GPU-00000000-1111-2222-3333-444444444444");
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
  (void)handle;
  memory->total = 80ULL << 30;
  memory->used = 20ULL << 30;
  memory->free = memory->total - memory->used;
  memory->reserved = 0;
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
  (void)handle;
  rates->gpu = 87;
  rates->memory = 12;
  return SUCCESS;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
  (void)handle;
  (void)sensor;
  *celsius = 61;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
  (void)handle;
  *milliwatts = 512500;
  return SUCCESS;
}

/* Each reading is 250 J after the one before. */
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
  static unsigned long long total = 7000000000000ULL;
  (void)handle;
  *millijoules = total += 250000;
  return SUCCESS;
}

/* GPUs without ECC memory answer so. */
int nvmlDeviceGetMemoryErrorCounter(void *handle, int type, int counter, int location,
                                    unsigned long long *errors) {
  (void)handle, (void)type, (void)counter, (void)location, (void)errors;
  return NOT_SUPPORTED;
}

int nvmlDeviceGetIndex(void *handle, unsigned *index) {
  (void)handle;
  *index = 0;
  return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(void *handle, unsigned long long *types) {
  (void)handle;
  *types = XID_EVENT;
  return SUCCESS;
}

int nvmlEventSetCreate(void **set) {
  *set = &device;
  return SUCCESS;
}

int nvmlEventSetFree(void *set) {
  (void)set;
  return SUCCESS;
}

int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
  (void)handle, (void)types, (void)set;
  return SUCCESS;
}

/* A number in the file that XID_FILE names is an event of the first GPU. */
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds) {
  const char *path = getenv("XID_FILE");
  FILE *file = path ? fopen(path, "r") : NULL;
  (void)set, (void)milliseconds;
  if (!file) {
    usleep(10000);
    return TIMEOUT;
  }
  event->device = &device;
  event->type = XID_EVENT;
  int numbers = fscanf(file, "%llu", &event->data);
  fclose(file);
  remove(path);
  return numbers == 1 ? SUCCESS : TIMEOUT;
}

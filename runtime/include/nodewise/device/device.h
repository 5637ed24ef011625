#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// Memory starts at a multiple of this: code compiled by TVM 0.7 to 0.9 may
// assume 128 bytes, every other release 64.
inline constexpr size_t kTensorAlignment = 128;

inline constexpr DLDevice kCpu{kDLCPU, 0};

// TVM has more device types than DLPack's enum, and reading an enum that holds
// a number out of its range is undefined. These two avoid reading it.
inline int DeviceTypeOf(DLDevice device) {
  int type = 0;
  std::memcpy(&type, &device.device_type, sizeof(type));
  return type;
}
inline DLDevice MakeDevice(int type, int id) {
  DLDevice device{kDLCPU, id};
  std::memcpy(&device.device_type, &type, sizeof(type));
  return device;
}

inline bool operator==(DLDevice a, DLDevice b) {
  return DeviceTypeOf(a) == DeviceTypeOf(b) && a.device_id == b.device_id;
}

// Memory of one kind of device. There is one object for each kind; it lives for
// ever, and any thread may call it. Pointers are the device's own.
class Device {
 public:
  virtual ~Device() = default;

  // Returns uninitialised memory; `alignment` is a power of two. For 0 bytes
  // the pointer may be freed but not read. Fails with kResourceExhausted.
  virtual absl::StatusOr<void*> Allocate(int id, size_t bytes,
                                         size_t alignment) = 0;
  virtual void Free(int id, void* data, size_t bytes) = 0;

  // Copies between places on this device, or to and from host memory.
  virtual absl::Status Copy(int id, void* to, const void* from,
                            size_t bytes) = 0;
  virtual absl::Status CopyToHost(int id, void* to, const void* from,
                                  size_t bytes) = 0;
  virtual absl::Status CopyFromHost(int id, void* to, const void* from,
                                    size_t bytes) = 0;
  // Waits for the work that was started on the device.
  virtual absl::Status Synchronize(int id) = 0;
};

// Returns the device. Fails with kUnavailable, saying what is built in and
// which option would add it.
absl::StatusOr<Device*> FindDevice(DLDevice device);

// Returns TVM's spelling, "cpu(0)". Types without a name print as
// "device_type_99(0)".
std::string ToString(DLDevice device);
std::string DeviceTypeName(int device_type);

// Returns the number of a name such as "cpu", or kNotFound.
absl::StatusOr<int> ParseDeviceType(std::string_view name);

}  // namespace nodewise

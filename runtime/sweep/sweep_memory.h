#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Gives the executors of one sweep their slots, one executor after the other:
// the same addresses and the same bytes for the same layout.
class SweepMemory : public std::enable_shared_from_this<SweepMemory> {
 public:
  SweepMemory() = default;
  SweepMemory(const SweepMemory&) = delete;
  SweepMemory& operator=(const SweepMemory&) = delete;
  ~SweepMemory();

  // Sets the layout that the next executor gets. REQUIRES: the one before is
  // gone.
  void SetLayout(int layout) { layout_ = layout; }
  absl::StatusOr<NDArray> Allocate(uint32_t slot, size_t bytes,
                                   DLDevice device);

 private:
  struct Region {
    uint8_t* data = nullptr;
    size_t bytes = 0;
  };

  int layout_ = 0;
  std::vector<Region> regions_;  // By slot.
};

}  // namespace nodewise

#pragma once

#include "nodewise/device/device.h"

namespace nodewise {

// Returns the device for host memory. Large blocks ask for huge pages, which
// halves the cost of touching them for the first time.
Device* OpenCpuDevice();

}  // namespace nodewise

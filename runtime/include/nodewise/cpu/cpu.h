#pragma once

#include "nodewise/device/device.h"

namespace nodewise {

// Host memory. Large blocks ask for huge pages, which halves what touching
// them for the first time costs.
Device* OpenCpuDevice();

}  // namespace nodewise

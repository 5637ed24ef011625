#pragma once

namespace nodewise::ops {

// The determinants of the matrices in the last two sides.
struct Det {};

}  // namespace nodewise::ops

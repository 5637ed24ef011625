#pragma once

namespace nodewise::ops {

// The attribute auto_pad of convolutions and pools: how much padding their
// windows get. With SAME there is one window for each stride of the input.
enum class Padding {
  kNotset,     // As much as the attribute `pads` says.
  kSameUpper,  // An odd element of padding stands at the end.
  kSameLower,  // An odd element of padding stands at the beginning.
  kValid,      // None.
};

}  // namespace nodewise::ops

#pragma once

// Operators that are known only to refuse them. Each class is its operator's
// primary attributes.

#include <string>

namespace nodewise::ops {

// Decodes an image file.
struct ImageDecoder {
  std::string pixel_format = "RGB";
};

}  // namespace nodewise::ops

#pragma once

#include <string>
#include <unordered_map>

#include "nodewise/lower/region.h"

namespace nodewise {

// Gives regions the names of functions: `nodewise_conv_add_relu`, made of the
// kinds of their operations. Regions that compute the same thing with tensors
// of the same types share a name; others get a number behind it.
class FunctionNames {
 public:
  std::string NameOf(const Region& region);

 private:
  std::unordered_map<std::string, std::string> names_;  // By content.
  std::unordered_map<std::string, int> uses_;           // By kinds.
};

}  // namespace nodewise

#pragma once

#include <string_view>

namespace nodewise {

// Returns which nodewise this is: "0.1.0".
std::string_view Version();

}  // namespace nodewise

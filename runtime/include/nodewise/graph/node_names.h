#pragma once

#include <string>
#include <vector>

namespace nodewise {

// "a, b, c" for a message; of many names the first and "...".
std::string ListOf(const std::vector<std::string>& names);

}  // namespace nodewise

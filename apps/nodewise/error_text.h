#pragma once

#include <string>

#include "nodewise/support/fault.h"

namespace nodewise {

// The fault as a line of text, or as several if a message in it has several.
std::string LineOf(const Fault& fault);

}  // namespace nodewise

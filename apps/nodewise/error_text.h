#pragma once

#include <string>

#include "nodewise/support/fault.h"

namespace nodewise {

// Returns the fault as a line of text, or several if a message in it has
// several.
std::string LineOf(const Fault& fault);

}  // namespace nodewise

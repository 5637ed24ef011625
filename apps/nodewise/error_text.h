#pragma once

#include <string>

#include "nodewise/graph/finding.h"

namespace nodewise {

// Returns the finding as a line of text, or several if a message in it has
// several.
std::string LineOf(const Finding& finding);

}  // namespace nodewise

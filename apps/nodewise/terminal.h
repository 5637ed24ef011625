#pragma once

#include <cstddef>

namespace nodewise {

// Returns how many characters fit a line of stdout: those of the terminal, 120
// if it does not say, 0 for no limit if stdout is not a terminal.
size_t LineWidth();

}  // namespace nodewise

#pragma once

// InputError() and AttributeError() (shape_rules.h) with messages that are put
// together as fmt::format() does.

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"

namespace nodewise {

template <typename... Args>
absl::Status WrongInput(size_t i, fmt::format_string<Args...> message,
                        Args&&... args) {
  return InputError(i, fmt::format(message, std::forward<Args>(args)...));
}
template <typename... Args>
absl::Status WrongAttribute(const char* attribute,
                            fmt::format_string<Args...> message,
                            Args&&... args) {
  return AttributeError(attribute,
                        fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace nodewise

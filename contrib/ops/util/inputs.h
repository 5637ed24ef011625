#pragma once

// What operators often do with their inputs: read one that may be missing, and
// say what is wrong with one.

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// InputError() and AttributeError() (shape_rules.h) with messages that are put
// together as fmt::format() does.
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

// Returns the numbers of an input; none if it is not given.
inline std::vector<double> GivenDoubles(const EvalArgs& args, size_t i) {
  return args.has(i) ? ToDoubles(args.in(i)) : std::vector<double>();
}

// Describes the inputs of an evaluation to functions that infer.
inline std::vector<InputInfo> GivenInputs(const EvalArgs& args) {
  std::vector<InputInfo> infos(args.num_inputs());
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].is_given = args.has(i);
    if (args.has(i)) infos[i].type = TensorType::From(*args.in(i));
  }
  return infos;
}

}  // namespace nodewise

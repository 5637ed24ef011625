#include "nodewise/debug/run_observer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

// A kernel's own number of dimensions may be anything.
constexpr int kMostShown = 16;

std::string ShapeText(const int64_t* shape, int ndim) {
  const auto shown = static_cast<size_t>(std::clamp(ndim, 0, kMostShown));
  return fmt::format("({})",
                     absl::StrJoin(absl::MakeConstSpan(shape, shown), ", "));
}

}  // namespace

// The shape and the strides are copied as well: the struct has only pointers to
// them, and a kernel can change what these point to.
ArgumentRecord::ArgumentRecord(TensorSpan inputs, TensorSpan outputs) {
  const auto add = [this](TensorSpan tensors, std::string_view role) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const DLTensor& now = *tensors[i];
      Argument argument{&now, now, {}, {}, fmt::format("its {} {}", role, i)};
      argument.shape.assign(now.shape, now.shape + now.ndim);
      if (now.strides != nullptr) {
        argument.strides.assign(now.strides, now.strides + now.ndim);
      }
      arguments_.push_back(std::move(argument));
    }
  };
  add(inputs, "input");
  add(outputs, "output");
}

// Pointers before contents: once the pointer to the shape is another one, it
// may point to anything.
std::string ArgumentRecord::FindChange() const {
  for (const Argument& argument : arguments_) {
    const DLTensor& before = argument.before;
    const DLTensor& now = *argument.tensor;
    const auto differs = [&](const char* what) {
      return fmt::format("changed the {} of {}", what, argument.name);
    };
    if (now.data != before.data) return differs("data pointer");
    if (now.byte_offset != before.byte_offset) return differs("byte offset");
    if (now.shape != before.shape) return differs("pointer to the shape");
    if (now.strides != before.strides) return differs("pointer to the strides");
    if (now.ndim != before.ndim) {
      return fmt::format("{} from {} to {}", differs("number of dimensions"),
                         before.ndim, now.ndim);
    }
    if (!std::equal(argument.shape.begin(), argument.shape.end(), now.shape)) {
      return fmt::format("{} from {} to {}", differs("shape"),
                         ShapeText(argument.shape.data(), before.ndim),
                         ShapeText(now.shape, now.ndim));
    }
    if (!argument.strides.empty() &&
        !std::equal(argument.strides.begin(), argument.strides.end(),
                    now.strides)) {
      return differs("strides");
    }
    if (!(now.dtype == before.dtype)) return differs("element type");
    if (!(now.device == before.device)) return differs("device");
  }
  return "";
}

// The tensors are constant for observers alone; the executor that owns them
// does not mind.
void ArgumentRecord::Restore() const {
  for (const Argument& argument : arguments_) {
    auto* const tensor = const_cast<DLTensor*>(argument.tensor);
    *tensor = argument.before;
    std::copy(argument.shape.begin(), argument.shape.end(), tensor->shape);
    std::copy(argument.strides.begin(), argument.strides.end(),
              tensor->strides);
  }
}

}  // namespace nodewise

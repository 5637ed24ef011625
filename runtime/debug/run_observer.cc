#include "nodewise/debug/run_observer.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

// A kernel's own number of dimensions may be anything.
constexpr int kMostShown = 16;

std::string ShapeText(const int64_t* shape, int ndim) {
  std::string text = "(";
  for (int i = 0; i < std::clamp(ndim, 0, kMostShown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return text + ")";
}

}  // namespace

ArgumentRecord::ArgumentRecord(absl::Span<const DLTensor* const> inputs,
                               absl::Span<const DLTensor* const> outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Add(inputs[i], fmt::format("its input {}", i));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Add(outputs[i], fmt::format("its output {}", i));
  }
}

void ArgumentRecord::Add(const DLTensor* tensor, std::string name) {
  Argument argument{tensor, *tensor, {}, {}, std::move(name)};
  argument.shape.assign(tensor->shape, tensor->shape + tensor->ndim);
  if (tensor->strides != nullptr) {
    argument.strides.assign(tensor->strides, tensor->strides + tensor->ndim);
  }
  arguments_.push_back(std::move(argument));
}

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
    if (now.dtype.code != before.dtype.code ||
        now.dtype.bits != before.dtype.bits ||
        now.dtype.lanes != before.dtype.lanes) {
      return differs("element type");
    }
    if (now.device.device_type != before.device.device_type ||
        now.device.device_id != before.device.device_id) {
      return differs("device");
    }
  }
  return "";
}

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

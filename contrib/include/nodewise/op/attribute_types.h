#pragma once

#include <utility>

namespace nodewise {

// A member of an operator's class that is a required attribute and whose type
// has no value that says "not given": a number, a word. It begins without a
// value, and no operation is made before it has one (CheckRequired() of
// nodewise/op/op_def.h). It is used like a T.
template <typename T>
class Required {
 public:
  Required() = default;
  Required(T value) : value_(std::move(value)), is_set_(true) {}  // NOLINT
  // One without a value. What asks an operator about its defaults reads
  // `reads_as` then, with which its checks of other things go through.
  static Required Unset(T reads_as) {
    Required unset(std::move(reads_as));
    unset.is_set_ = false;
    return unset;
  }

  bool has_value() const { return is_set_; }
  const T& get() const { return value_; }
  const T& operator*() const { return value_; }  // As std::optional has it.
  operator const T&() const { return value_; }   // NOLINT: reads like a T

 private:
  T value_{};
  bool is_set_ = false;
};

}  // namespace nodewise

namespace nodewise::ops {

// The attribute auto_pad of convolutions and pools: how much padding their
// windows get. With SAME there is one window for each stride of the input.
enum class Padding {
  kNotset,     // As much as the attribute `pads` says.
  kSameUpper,  // An odd element of padding stands at the end.
  kSameLower,  // An odd element of padding stands at the beginning.
  kValid,      // None.
};

}  // namespace nodewise::ops

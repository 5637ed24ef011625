#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

inline constexpr DLDataType kDemoFloat{kDLFloat, 32, 1};
inline constexpr DLDataType kDemoInt{kDLInt, 64, 1};

// Adds operations and random constants to a network, under names of their own.
// After the first error it does nothing more; Finish() returns that error.
class LayerBuilder {
 public:
  // `ops` must outlive the builder.
  LayerBuilder(const OpSet& ops, std::string name, uint64_t seed)
      : ops_(ops), seed_(seed), network_(std::move(name)) {}

  ValueId Input(const std::string& name, Shape shape,
                DLDataType dtype = kDemoFloat) {
    return Checked(
        network_.AddInput(name, TensorType(dtype, std::move(shape))));
  }
  template <typename Class>
  ValueId Op(const std::string& name, const Class& op,
             std::vector<ValueId> inputs) {
    if (!status_.ok()) return kNoValue;
    return Checked(network_.Add(ops_, op, std::move(inputs), name));
  }
  // Adds an operation that has several outputs, which are named.
  template <typename Class>
  std::vector<ValueId> Ops(const std::string& name, const Class& op,
                           std::vector<ValueId> inputs,
                           std::vector<std::string> outputs) {
    return AddNamed(name, OpAttrs::From(ops_.FindType(&kTypeTag<Class>), op),
                    std::move(inputs), std::move(outputs));
  }
  absl::StatusOr<Network> Finish(std::vector<ValueId> outputs);

  // A convolution that keeps the sides (but for the stride), and a
  // normalisation of each channel.
  ValueId ConvAndNorm(const std::string& name, ValueId x, int64_t from,
                      int64_t to, int64_t kernel, int64_t stride);
  ValueId LayerNorm(const std::string& name, ValueId x, int64_t width);
  // A matrix product, and the sum with a bias.
  ValueId Dense(const std::string& name, ValueId x, int64_t from, int64_t to);
  ValueId Transposed(const std::string& name, ValueId x,
                     std::vector<int64_t> order);
  ValueId Reshaped(const std::string& name, ValueId x,
                   const std::vector<int64_t>& sizes);
  // A row for each place, [1, places, width], as that of each head: a dense
  // layer whose results are split and stand in this order of [1, places, heads,
  // width of a head].
  ValueId Heads(const std::string& name, ValueId x, int64_t places,
                int64_t width, int64_t heads, std::vector<int64_t> order);
  // The mean along these sides, which go.
  ValueId MeanOver(const std::string& name, ValueId x,
                   const std::vector<int64_t>& axes);
  // The probabilities of so many classes.
  ValueId Classes(ValueId x, int64_t from, int64_t classes);

  // Uniform numbers whose sums of `terms` products stay as large as what they
  // are multiplied with. Numbers of the interval [-a, a] have a variance of
  // a^2 / 3: with a^2 = 6 / terms a sum of products has twice that of what is
  // multiplied, of which a Relu leaves half.
  ValueId Weights(const std::string& name, std::vector<int64_t> shape,
                  int64_t terms) {
    return Random(name, std::move(shape),
                  std::sqrt(6.0 / static_cast<double>(terms)));
  }
  // Uniform numbers from middle - range to middle + range.
  ValueId Random(const std::string& name, std::vector<int64_t> shape,
                 double range, double middle = 0);
  ValueId Number(const std::string& name, float value) {
    return Floats(name, {}, {value});
  }
  ValueId Floats(const std::string& name, const std::vector<int64_t>& shape,
                 const std::vector<float>& values) {
    return Constant(name, shape, kDemoFloat, values.data(),
                    values.size() * sizeof(float));
  }
  // What a Reshape, or the sides of a reduction, are given as.
  ValueId Sizes(const std::string& name, const std::vector<int64_t>& sizes) {
    return Constant(name + "_sizes", {static_cast<int64_t>(sizes.size())},
                    kDemoInt, sizes.data(), sizes.size() * sizeof(int64_t));
  }

 private:
  std::vector<ValueId> AddNamed(const std::string& name, OpAttrs attrs,
                                std::vector<ValueId> inputs,
                                std::vector<std::string> outputs);
  ValueId Constant(const std::string& name, const std::vector<int64_t>& shape,
                   DLDataType dtype, const void* data, size_t bytes);
  ValueId Checked(const absl::StatusOr<ValueId>& id) {
    return id.ok() ? *id : Fail(id.status());
  }
  ValueId Fail(const absl::Status& status) {
    status_.Update(status);
    return kNoValue;
  }

  const OpSet& ops_;
  const uint64_t seed_;
  Network network_;
  absl::Status status_;
};

}  // namespace nodewise

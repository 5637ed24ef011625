#pragma once

// A backward primitive that is made and run once, and the tensors around it.

#include <map>
#include <vector>

#include "contrib/onednn/backward_plans.h"
#include "contrib/onednn/call.h"
#include "nodewise/onednn/onednn_backward.h"

namespace nodewise::onednn {

// A tensor with a description of its own.
struct Placed {
  Desc desc;
  NDArray tensor;
};

// Runs primitives, and brings tensors into the order that each of them wants.
// oneDNN's errors are thrown.
class BackwardRun {
 public:
  BackwardRun(const Call& call, const OneDnnBackwardCall& backward)
      : call_(call), backward_(backward), stream_(Engine()) {}

  const Call& call() const { return call_; }
  bool wants(size_t input) const;
  // Inputs and the cotangent as they lie, or as `desc` says.
  Placed Input(size_t i) const { return {PlainOf(i), backward_.inputs[i]}; }
  Placed Input(size_t i, const Desc& desc) const {
    return {desc, backward_.inputs[i]};
  }
  Placed Cotangent() const;
  Placed Cotangent(const Desc& desc) const {
    return {desc, backward_.cotangent};
  }
  Desc PlainOf(size_t i) const;

  // Arguments of the next primitive. What it makes, and what is only handed on
  // from one primitive to the next, lies as the primitive wants.
  void Read(int argument, const Placed& placed);
  void Make(int argument) { made_.push_back(argument); }
  // Both primitives have it: what the first has made.
  void Keep(int argument);
  void Run(const dnnl::primitive_desc_base& plan);

  // Says that an argument which has been made is the gradient of input `i`,
  // which lies as `desc` says.
  absl::Status Give(size_t i, int argument, const Desc& desc);
  absl::Status Give(size_t i, int argument) {
    return Give(i, argument, PlainOf(i));
  }
  // Returns the gradients that are asked for; refuses if one is not there.
  absl::StatusOr<std::vector<NDArray>> Gradients() const;

 private:
  void Reorder(dnnl::memory from, dnnl::memory to);

  const Call& call_;
  const OneDnnBackwardCall& backward_;
  dnnl::stream stream_;
  std::vector<std::pair<int, Placed>> read_;
  std::vector<int> made_;
  std::vector<int> kept_;
  std::map<int, dnnl::memory> memories_;
  std::map<size_t, NDArray> gradients_;
};

}  // namespace nodewise::onednn

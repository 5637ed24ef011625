#include "contrib/onednn/backward_run.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "contrib/onednn/program.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {

bool BackwardRun::wants(size_t input) const {
  return std::find(backward_.wanted.begin(), backward_.wanted.end(), input) !=
         backward_.wanted.end();
}

Placed BackwardRun::Cotangent() const {
  return Cotangent(
      DescOf(call_.output_sizes(), DataType::f32, TensorLayout::kPlain));
}

Desc BackwardRun::PlainOf(size_t i) const {
  return DescOf(call_.sizes(i), DataType::f32, TensorLayout::kPlain);
}

void BackwardRun::Read(int argument, const Placed& placed) {
  read_.emplace_back(argument, placed);
}

void BackwardRun::Keep(int argument) { kept_.push_back(argument); }

void BackwardRun::Reorder(dnnl::memory from, dnnl::memory to) {
  dnnl::reorder(from, to).execute(stream_, from, to);
  stream_.wait();
}

void BackwardRun::Run(const dnnl::primitive_desc_base& plan) {
  const auto desc_of = [&](int argument) {
    return ArgumentOf({plan, {}}, argument);
  };
  std::unordered_map<int, dnnl::memory> arguments;
  for (const auto& [argument, placed] : read_) {
    dnnl::memory memory(placed.desc, Engine(), placed.tensor.data());
    if (desc_of(argument) != placed.desc) {
      const dnnl::memory ordered(desc_of(argument), Engine());
      Reorder(memory, ordered);
      memory = ordered;
    }
    arguments[argument] = memory;
  }
  for (const int argument : made_) {
    memories_[argument] = dnnl::memory(desc_of(argument), Engine());
    arguments[argument] = memories_[argument];
  }
  for (const int argument : kept_) {
    const dnnl::memory& before = memories_[argument];
    if (desc_of(argument) == before.get_desc()) {
      arguments[argument] = before;
      continue;
    }
    arguments[argument] = dnnl::memory(desc_of(argument), Engine());
    Reorder(before, arguments[argument]);
  }
  read_.clear();
  made_.clear();
  kept_.clear();
  dnnl::primitive(plan.get()).execute(stream_, arguments);
  stream_.wait();
}

absl::Status BackwardRun::Give(size_t i, int argument, const Desc& desc) {
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray gradient,
      NDArray::Empty(backward_.inputs[i].shape(), kFloat32, kCpu));
  Reorder(memories_[argument], dnnl::memory(desc, Engine(), gradient.data()));
  gradients_[i] = std::move(gradient);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NDArray>> BackwardRun::Gradients() const {
  std::vector<NDArray> all;
  for (const size_t input : backward_.wanted) {
    const auto found = gradients_.find(input);
    if (found == gradients_.end()) {
      return Refuse(fmt::format("{}: oneDNN has no gradient for it",
                                call_.NameOf(input)));
    }
    all.push_back(found->second);
  }
  return all;
}

}  // namespace nodewise::onednn

#include "nodewise/lower/lowered_library.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A kernel as the executor calls it: with all tensors in one list.
class BoundKernel {
 public:
  BoundKernel(std::unique_ptr<RegionKernel> kernel,
              const KernelRequest& request)
      : kernel_(std::move(kernel)),
        num_inputs_(request.arguments.size() - request.num_outputs),
        count_(request.arguments.size()) {}

  absl::StatusOr<Value> operator()(const PackedArgs& args) const {
    if (static_cast<size_t>(args.size()) != count_) {
      return absl::InvalidArgumentError(fmt::format(
          "is called with {} tensors, expected {}", args.size(), count_));
    }
    std::vector<NDArray> tensors;
    tensors.reserve(count_);
    for (int i = 0; i < args.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
      NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor, arg.AsTensor());
      // Borrowed memory is nobody's own: no kernel writes over an input.
      tensors.push_back(NDArray::Borrow(*tensor, nullptr));
    }
    const auto all = absl::MakeConstSpan(tensors);
    NODEWISE_RETURN_IF_ERROR(
        kernel_->Run(all.subspan(0, num_inputs_), all.subspan(num_inputs_)));
    return Value();
  }

 private:
  const std::unique_ptr<RegionKernel> kernel_;
  const size_t num_inputs_;
  const size_t count_;
};

}  // namespace

LoweredLibrary::LoweredLibrary(
    OpSet ops, std::vector<std::shared_ptr<const KernelMaker>> makers)
    : ops_(std::move(ops)), makers_(std::move(makers)) {}

absl::StatusOr<PackedFunc> LoweredLibrary::Find(std::string_view) {
  return PackedFunc();
}

absl::StatusOr<PackedFunc> LoweredLibrary::Bind(const KernelRequest& request) {
  NODEWISE_ASSIGN_OR_RETURN(const Region region, RegionOf(request, ops_));
  NODEWISE_ASSIGN_OR_RETURN(auto kernel, Make(region));
  // A function that is copied shares its kernel.
  const auto bound =
      std::make_shared<const BoundKernel>(std::move(kernel), request);
  return PackedFunc::FromBody(
      [bound](const PackedArgs& args) { return (*bound)(args); });
}

absl::StatusOr<std::unique_ptr<RegionKernel>> LoweredLibrary::Make(
    const Region& region) {
  KernelChoice choice;
  choice.node = region.network.name();
  for (const auto& maker : makers_) {
    auto kernel = maker->Make(region);
    if (absl::IsUnimplemented(kernel.status())) {
      choice.refusals.push_back(
          fmt::format("{}: {}", maker->name(), MessageOf(kernel.status())));
      continue;
    }
    if (!kernel.ok()) return At(maker->name(), kernel.status());
    choice.kernel = maker->name();
    const std::lock_guard lock(mutex_);
    choices_[choice.node] = std::move(choice);
    return kernel;
  }
  return absl::UnimplementedError(
      fmt::format("nothing can compute it: {}",
                  makers_.empty() ? "there are no kernels"
                                  : absl::StrJoin(choice.refusals, "; ")));
}

std::vector<KernelChoice> LoweredLibrary::choices() const {
  const std::lock_guard lock(mutex_);
  std::vector<KernelChoice> choices;
  for (const auto& [node, choice] : choices_) choices.push_back(choice);
  return choices;
}

}  // namespace nodewise

#include "nodewise/lower/kernel_table.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The types of outputs need not follow from the network alone.
std::string KeyOf(const Region& region, const std::string& attributes) {
  std::string key = attributes;
  for (const TensorType& type : region.outputs) key += "\n" + ToString(type);
  return key;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RegionKernel>> KernelMaker::Make(
    const Region& region) const {
  NODEWISE_ASSIGN_OR_RETURN(const auto plan, Plan(region));
  return plan->Make(region);
}

PlannedKernel ChooseKernel(
    absl::Span<const std::shared_ptr<const KernelMaker>> makers,
    const Region& region) {
  PlannedKernel chosen;
  KernelChoice& choice = chosen.choice;
  choice.node = region.network.name();
  for (const auto& maker : makers) {
    auto plan = maker->Plan(region);
    if (absl::IsUnimplemented(plan.status())) {
      choice.refusals.push_back(
          fmt::format("{}: {}", maker->name(), MessageOf(plan.status())));
      continue;
    }
    if (!plan.ok()) {
      chosen.status = At(maker->name(), plan.status());
      return chosen;
    }
    choice.kernel = maker->name();
    choice.operations = (*plan)->Operations();
    if (choice.operations.empty()) {
      for (const OperationId id : SourceOperations(region)) {
        choice.operations.push_back(
            {region.network.operation(id).name, choice.kernel, "", ""});
      }
    }
    chosen.plan = *std::move(plan);
    return chosen;
  }
  chosen.status = absl::UnimplementedError(
      fmt::format("nothing can compute it: {}",
                  makers.empty() ? "there are no kernels"
                                 : absl::StrJoin(choice.refusals, "; ")));
  return chosen;
}

void KernelTable::Add(const Region& region, PlannedKernel kernel) {
  by_region_.emplace(KeyOf(region, RegionText(AttributesOf(region))),
                     rows_.size());
  rows_.push_back(std::move(kernel));
}

const PlannedKernel* KernelTable::Find(const Region& region,
                                       const std::string& attributes) const {
  const auto found = by_region_.find(KeyOf(region, attributes));
  return found == by_region_.end() ? nullptr : &rows_[found->second];
}

}  // namespace nodewise

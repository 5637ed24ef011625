#include "nodewise/lower/region_kernels.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"

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
    // This code alone means "ask the next one". A maker that has failed in
    // another way may have been the right one, so that taking the next would
    // hide a fault.
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
    // Most makers compute a region as a whole and have nothing to add.
    if (choice.operations.empty()) {
      for (const OperationId id : SourceOperations(region)) {
        choice.operations.push_back(
            {region.network.operation(id).name, choice.kernel, "", ""});
      }
    }
    chosen.plan = *std::move(plan);
    return chosen;
  }
  chosen.status =
      Unimplemented("nothing can compute it: {}",
                    makers.empty() ? "there are no kernels"
                                   : absl::StrJoin(choice.refusals, "; "));
  return chosen;
}

void KernelTable::Add(const Region& region, PlannedKernel kernel) {
  // The first plan counts among equal regions: makers decide by the region
  // alone.
  by_region_.emplace(KeyOf(region, RegionText(AttributesOf(region))),
                     rows_.size());
  rows_.push_back(std::move(kernel));
}

const PlannedKernel* KernelTable::Find(const Region& region,
                                       const std::string& attributes) const {
  const auto found = by_region_.find(KeyOf(region, attributes));
  return found == by_region_.end() ? nullptr : &rows_[found->second];
}

// The choice made for each node, and the kernels that know more.
class LoweredLibrary::Choices {
 public:
  void Add(KernelChoice choice, const RegionKernel* kernel) {
    const std::lock_guard lock(mutex_);
    std::string node = choice.node;
    known_[std::move(node)] = {std::move(choice), kernel};
  }
  // The kernel is about to end.
  void Remove(const std::string& node, const RegionKernel* kernel) {
    const std::lock_guard lock(mutex_);
    Known& known = known_[node];
    if (known.kernel != kernel) return;  // Another one was bound since.
    Update(&known);
    known.kernel = nullptr;
  }
  std::vector<KernelChoice> All() {
    const std::lock_guard lock(mutex_);
    std::vector<KernelChoice> all;
    for (auto& [node, known] : known_) {
      Update(&known);
      all.push_back(known.choice);
    }
    return all;
  }

 private:
  struct Known {
    KernelChoice choice;
    const RegionKernel* kernel = nullptr;  // Null: it has ended.
  };

  // A kernel may know only after a run why it leaves an operation to the
  // reference.
  static void Update(Known* known) {
    if (known->kernel == nullptr) return;
    auto operations = known->kernel->Operations();
    if (!operations.empty()) known->choice.operations = std::move(operations);
  }

  std::mutex mutex_;
  std::map<std::string, Known> known_;  // By node.
};

// A kernel as the executor calls it: with all tensors in one list.
class LoweredLibrary::BoundKernel {
 public:
  BoundKernel(std::unique_ptr<RegionKernel> kernel, const Region& region,
              const KernelChoice& choice, std::shared_ptr<Choices> choices)
      : kernel_(std::move(kernel)),
        num_inputs_(region.network.inputs().size()),
        count_(num_inputs_ + region.outputs.size()),
        node_(choice.node),
        choices_(std::move(choices)) {
    for (const ValueId input : region.network.inputs()) {
      dtypes_.push_back(region.network.value(input).type.dtype);
    }
    for (const TensorType& output : region.outputs) {
      dtypes_.push_back(output.dtype);
    }
    choices_->Add(choice, kernel_.get());
  }
  BoundKernel(const BoundKernel&) = delete;
  BoundKernel& operator=(const BoundKernel&) = delete;
  ~BoundKernel() { choices_->Remove(node_, kernel_.get()); }

  absl::StatusOr<Value> operator()(const PackedArgs& args) const {
    if (static_cast<size_t>(args.size()) != count_) {
      return InvalidArgument("is called with {} tensors, expected {}",
                             args.size(), count_);
    }
    std::vector<NDArray> tensors;
    tensors.reserve(count_);
    for (int i = 0; i < args.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
      NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor, arg.AsTensor());
      DLTensor own = *tensor;
      const DLDataType known = dtypes_[static_cast<size_t>(i)];
      // Kernels compare types by their numbers, of which some have changed in
      // TVM.
      if (IsSameType(own.dtype, known)) own.dtype = known;
      // A borrowed tensor does not own its memory: no kernel writes over an
      // input.
      tensors.push_back(NDArray::Borrow(own, nullptr));
    }
    const auto all = absl::MakeConstSpan(tensors);
    NODEWISE_RETURN_IF_ERROR(
        kernel_->Run(all.subspan(0, num_inputs_), all.subspan(num_inputs_)));
    return Value();
  }

 private:
  const std::unique_ptr<RegionKernel> kernel_;
  // As networks number them; functions are shown older numbers of some.
  std::vector<DLDataType> dtypes_;
  const size_t num_inputs_;
  const size_t count_;
  const std::string node_;
  const std::shared_ptr<Choices> choices_;
};

LoweredLibrary::LoweredLibrary(
    OpSet ops, std::vector<std::shared_ptr<const KernelMaker>> makers,
    std::shared_ptr<const KernelTable> table)
    : ops_(std::move(ops)),
      makers_(std::move(makers)),
      table_(std::move(table)),
      choices_(std::make_shared<Choices>()) {}

// Functions are made for the node that asks, so there is none to be had by
// name.
absl::StatusOr<PackedFunc> LoweredLibrary::Find(std::string_view) {
  return PackedFunc();
}

absl::StatusOr<PackedFunc> LoweredLibrary::Bind(const KernelRequest& request) {
  NODEWISE_ASSIGN_OR_RETURN(const Region region, RegionOf(request, ops_));
  KernelChoice choice;
  NODEWISE_ASSIGN_OR_RETURN(auto kernel, Make(request, region, &choice));
  // A function that is copied shares its kernel.
  const auto bound = std::make_shared<const BoundKernel>(
      std::move(kernel), region, choice, choices_);
  return PackedFunc::FromBody(
      [bound](const PackedArgs& args) { return (*bound)(args); });
}

absl::StatusOr<std::unique_ptr<RegionKernel>> LoweredLibrary::Make(
    const KernelRequest& request, const Region& region,
    KernelChoice* choice) const {
  // A node that was edited since, or comes from a file, has no row, and its
  // makers are asked now.
  const PlannedKernel* const row =
      table_ == nullptr ? nullptr
                        : table_->Find(region, RegionText(request.attrs));
  PlannedKernel asked;
  if (row == nullptr) asked = ChooseKernel(makers_, region);
  const PlannedKernel& chosen = row == nullptr ? asked : *row;
  NODEWISE_RETURN_IF_ERROR(chosen.status);
  *choice = chosen.choice;
  auto kernel = chosen.plan->Make(region);
  if (!kernel.ok()) return At(choice->kernel, kernel.status());
  return kernel;
}

std::vector<KernelChoice> LoweredLibrary::choices() const {
  return choices_->All();
}

}  // namespace nodewise

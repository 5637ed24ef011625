#include "nodewise/regions/built_in_functions.h"

#include <utility>

#include "nodewise/runner/reference_kernels.h"

namespace nodewise {

std::vector<std::shared_ptr<const KernelMaker>> KernelMakersOf(
    Backend backend) {
  std::vector<std::shared_ptr<const KernelMaker>> makers;
  // The order is that of preference: the reference refuses nothing, so all
  // behind it would never be asked.
  if (backend == Backend::kFastest) makers.push_back(OneDnnKernels());
  makers.push_back(ReferenceKernels());
  return makers;
}

Ref<LoweredLibrary> BuiltInFunctions(const OpSet& ops, Backend backend,
                                     std::shared_ptr<const KernelTable> table) {
  return MakeRef<LoweredLibrary>(ops, KernelMakersOf(backend),
                                 std::move(table));
}

LowerOptions LoweringFor(const OpSet& ops, Backend backend) {
  LowerOptions options;
  // The reference is as slow in every layout, and reads networks more easily as
  // they are written.
  if (backend != Backend::kFastest) return options;
  options.preference_of = &OneDnnLayoutOf;
  options.operators = ops;
  return options;
}

}  // namespace nodewise

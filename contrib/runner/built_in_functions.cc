#include "nodewise/runner/built_in_functions.h"

#include <utility>

#include "nodewise/runner/onednn_kernels.h"
#include "nodewise/runner/reference_kernels.h"

namespace nodewise {

std::vector<std::shared_ptr<const KernelMaker>> KernelMakersOf(
    Backend backend) {
  std::vector<std::shared_ptr<const KernelMaker>> makers;
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
  if (backend != Backend::kFastest) return options;
  options.preference_of = &OneDnnLayoutOf;
  options.operators = ops;
  return options;
}

}  // namespace nodewise

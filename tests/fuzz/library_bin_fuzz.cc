#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/check.h"
#include "nodewise/vm/vm_graph.h"
#include "runtime/module/module_blob.h"
#include "tests/fuzz/memory_limit.h"

namespace {

using nodewise::VmFunction;
using nodewise::VmLibrary;

// Every name that the bytecode calls is a kernel, so that nothing is refused
// because one is missing.
std::unique_ptr<VmLibrary> LibraryWith(nodewise::VmExecutable executable) {
  auto library = std::make_unique<VmLibrary>();
  library->path = "fuzz.so";
  for (const VmFunction& function : executable.functions) {
    library->kernels.emplace_back(function.name);
  }
  std::sort(library->kernels.begin(), library->kernels.end());
  library->executable = std::move(executable);
  return library;
}

// Checks that the resulting graph is sound, and reads its parameters.
uint64_t CheckMade(const nodewise::VmGraph& made) {
  nodewise::DiagnosticList diagnostics;
  nodewise::CheckGraph(made.graph, &diagnostics);
  NODEWISE_CHECK(!diagnostics.HasErrors());
  uint64_t total = 0;
  for (const nodewise::NamedTensor& entry : made.params.tensors) {
    const auto* data = static_cast<const uint8_t*>(entry.tensor.data());
    for (size_t i = 0; i < entry.tensor.bytes(); ++i) total += data[i];
  }
  return total;
}

uint64_t ReadAll(absl::Span<const uint8_t> bytes, nodewise::VmEra era) {
  auto executable = nodewise::ParseVmExecutable(bytes, "fuzz.so", 0, era);
  if (!executable.ok()) return 0;
  const auto library = LibraryWith(*std::move(executable));
  uint64_t total = 0;
  for (const VmFunction& function : library->executable.functions) {
    if (function.kind == VmFunction::Kind::kPacked) continue;
    nodewise::DiagnosticList reasons;
    nodewise::VmBinding binding{{{"x", {3, 2}, nodewise::kFloat32}}, nullptr};
    binding.compute = [](std::string_view, absl::Span<int64_t> heap) {
      for (size_t i = 0; i < heap.size(); ++i) heap[i] = heap.front() + 1;
      return absl::OkStatus();
    };
    const auto made =
        nodewise::ReadVmGraph(*library, function, binding, &reasons);
    if (!made.ok()) continue;
    NODEWISE_CHECK(reasons.items().empty() || made->graph.nodes.empty());
    if (reasons.items().empty()) total += CheckMade(*made);
  }
  return total;
}

}  // namespace

// Any bytes are an error, or modules whose bytecode can be read; every
// resulting graph is sound.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const nodewise::MemoryLimit limit(size);
  uint64_t total = ReadAll({data, size}, nodewise::VmEra::kClassic);
  const auto bin = nodewise::ParseLibraryBin({data, size}, "fuzz.so");
  if (bin.ok()) {
    for (const nodewise::LibraryBinModule& module : bin->modules) {
      total += ReadAll(module.data, nodewise::VmEra::kFfi);
      for (const uint32_t import : module.imports) {
        NODEWISE_CHECK(import < bin->modules.size());
      }
    }
  }
  // Read everything, but let the compiler think that it matters.
  volatile uint64_t sink = total;
  static_cast<void>(sink);
  return 0;
}

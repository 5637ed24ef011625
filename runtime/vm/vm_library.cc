#include "nodewise/vm/vm_library.h"

#include <algorithm>
#include <utility>

#include "nodewise/module/library_bytecode.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

bool VmLibrary::HasKernel(std::string_view name) const {
  return std::binary_search(kernels.begin(), kernels.end(), name);
}

absl::StatusOr<std::unique_ptr<VmLibrary>> OpenVmLibrary(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(auto found, FindBytecode(path));
  if (!found.has_value()) return nullptr;
  auto library = std::make_unique<VmLibrary>();
  library->path = path;
  library->file = std::move(found->file);
  NODEWISE_ASSIGN_OR_RETURN(
      library->executable,
      ParseVmExecutable(found->bytes, std::move(found->where), found->offset,
                        found->is_ffi ? VmEra::kFfi : VmEra::kClassic));
  library->kernels = std::move(found->kernels);
  return library;
}

}  // namespace nodewise

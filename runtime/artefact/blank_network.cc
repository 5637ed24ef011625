#include "nodewise/artefact/blank_network.h"

#include <algorithm>
#include <variant>

#include "nodewise/module/factory_module.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
namespace {

// Overwrites in `copy` what lies there as `part` does in the file.
void Fill(const VmLibrary& library, const void* part, size_t size, char with,
          std::string* copy) {
  const auto at = static_cast<const char*>(part) - library.file->text().data();
  std::fill_n(copy->begin() + at, size, with);
}

// Only bytes are written over and none are moved, so that every offset in the
// file stays right.
void BlankBytecode(const VmLibrary& library, std::string* copy) {
  for (const VmConstant& constant : library.executable.constants) {
    const auto* const tensor = std::get_if<TensorRecord>(&constant);
    if (tensor == nullptr) continue;
    Fill(library, tensor->data.data(), tensor->data.size(), '\0', copy);
  }
  for (const VmFunction& function : library.executable.functions) {
    for (const std::string_view param : function.params) {
      Fill(library, param.data(), param.size(), '_', copy);
    }
  }
}

}  // namespace

absl::StatusOr<std::string> WithBlankNetwork(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(std::string bytes, WithBlankFactories(path));
  const auto library = OpenVmLibrary(path);
  // A damaged one is refused when it is loaded.
  if (library.ok() && *library != nullptr) BlankBytecode(**library, &bytes);
  return bytes;
}

}  // namespace nodewise

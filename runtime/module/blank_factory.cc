#include "nodewise/module/blank_factory.h"

#include <algorithm>
#include <variant>

#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "runtime/module/elf.h"
#include "runtime/module/module_blob.h"

namespace nodewise {
namespace {

constexpr std::string_view kFactoryBlob = "__tvm_dev_mblob";

// Writes over parts of a copy of a file; they are given as they lie in the
// file itself.
class Blanker {
 public:
  explicit Blanker(std::string_view file) : file_(file), copy_(file) {}

  void Fill(std::string_view part, char with) {
    const size_t at = static_cast<size_t>(part.data() - file_.data());
    std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(at), part.size(), with);
  }

  void Blank(const GraphFactoryItem& factory) {
    Fill(factory.graph_json, ' ');
    Fill(factory.module_name, '_');
    for (const auto& [name, tensor] : factory.params) {
      Fill(name, '_');
      Fill({reinterpret_cast<const char*>(tensor.data.data()),
            tensor.data.size()},
           '\0');
    }
  }

  std::string Take() { return std::move(copy_); }

 private:
  std::string_view file_;
  std::string copy_;
};

}  // namespace

absl::StatusOr<std::string> WithBlankFactories(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf, ParseElf(file.bytes(), path));
  Blanker blanker(file.text());
  const ElfSymbol* const symbol = FindSymbol(elf, kFactoryBlob);
  if (symbol == nullptr) return blanker.Take();
  NODEWISE_ASSIGN_OR_RETURN(const auto bytes, BytesAt(elf, symbol->value));
  const auto blob = ParseModuleBlob(bytes, path);
  if (!blob.ok()) return blanker.Take();
  for (const BlobItem& item : blob->items) {
    const auto* const factory = std::get_if<GraphFactoryItem>(&item.content);
    if (factory != nullptr) blanker.Blank(*factory);
  }
  return blanker.Take();
}

}  // namespace nodewise

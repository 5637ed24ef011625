#include <link.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/module/library_module.h"

namespace nodewise {
namespace {

// Filled by constructors of model code, possibly before our own have run.
// Registering must therefore work before main() and need nothing that this
// library's own constructors make.
struct SystemTable {
  std::mutex mutex;
  std::map<std::string, void*, std::less<>> symbols;
  std::map<std::string, Ref<Module>, std::less<>> modules;
};

SystemTable& SystemSymbolTable() {
  static auto* const table = new SystemTable;
  return *table;
}

struct MemoryRange {
  uintptr_t address;
  size_t bytes;  // From `address` to the segment's end; 0: unknown.
};

// The loader knows all segments of the process; the one around the address ends
// where its bytes do.
int FindRange(dl_phdr_info* info, size_t, void* data) {
  auto* const range = static_cast<MemoryRange*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (range->address < start || range->address >= start + segment.p_memsz) {
      continue;
    }
    range->bytes = start + segment.p_memsz - range->address;
    return 1;
  }
  return 0;
}

// A prefix may stand before either name, hence the endings. All other symbols
// are taken for functions.
bool IsVariable(std::string_view name) {
  return name.ends_with("__tvm_module_ctx") ||
         name.ends_with("__tvm_dev_mblob");
}

class SystemSymbolsImpl final : public Symbols {
 public:
  explicit SystemSymbolsImpl(std::string prefix) : prefix_(std::move(prefix)) {}

  // A registration does not say whether it is code.
  void* Function(std::string_view name) const override {
    return IsVariable(name) ? nullptr : Variable(name);
  }
  void* Variable(std::string_view name) const override {
    SystemTable& table = SystemSymbolTable();
    const std::lock_guard lock(table.mutex);
    auto place = table.symbols.find(prefix_ + std::string(name));
    if (place == table.symbols.end()) place = table.symbols.find(name);
    return place == table.symbols.end() ? nullptr : place->second;
  }
  std::vector<std::string> FunctionNames() const override {
    SystemTable& table = SystemSymbolTable();
    const std::lock_guard lock(table.mutex);
    std::vector<std::string> names;
    for (const auto& [name, address] : table.symbols) {
      if (!IsVariable(name)) names.push_back(name);
    }
    return names;
  }
  absl::Span<const uint8_t> BytesFrom(std::string_view name) const override {
    void* const address = Variable(name);
    MemoryRange range{reinterpret_cast<uintptr_t>(address), 0};
    if (address != nullptr) dl_iterate_phdr(&FindRange, &range);
    return {static_cast<const uint8_t*>(address), range.bytes};
  }
  const std::string& where() const override { return where_; }

 private:
  const std::string prefix_;
  const std::string where_ = "system library";
};

}  // namespace

void RegisterSystemSymbol(std::string_view name, void* address) {
  SystemTable& table = SystemSymbolTable();
  const std::lock_guard lock(table.mutex);
  table.symbols[std::string(name)] = address;
}

// Making the modules looks symbols up, which takes the same lock: of two
// threads that make them at once, the first to be done wins.
absl::StatusOr<Ref<Module>> SystemLibrary(std::string_view prefix) {
  SystemTable& table = SystemSymbolTable();
  {
    const std::lock_guard lock(table.mutex);
    const auto known = table.modules.find(prefix);
    if (known != table.modules.end()) return known->second;
  }
  absl::StatusOr<Ref<Module>> module =
      BuildModules(MakeRef<SystemSymbolsImpl>(std::string(prefix)), prefix);
  if (!module.ok()) return module;
  const std::lock_guard lock(table.mutex);
  return table.modules.emplace(prefix, *module).first->second;
}

}  // namespace nodewise

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nodewise/graph/graph_json.h"
#include "nodewise/support/check.h"
#include "runtime/module/module_blob.h"
#include "tests/fuzz/memory_limit.h"

namespace {

// Reads everything that a blob hands out.
class Sum {
 public:
  void Add(std::string_view text) {
    for (const char c : text) total_ += static_cast<uint8_t>(c);
  }
  void Add(const nodewise::TensorRecord& record) {
    NODEWISE_CHECK(record.ToTensor().ndim ==
                   static_cast<int>(record.shape.size()));
    for (const uint8_t byte : record.data) total_ += byte;
  }
  void operator()(const nodewise::OwnCodeItem&) {}
  void operator()(const nodewise::GraphFactoryItem& item) {
    for (const auto& [name, record] : item.params) Add(name), Add(record);
    Add(item.module_name);
    const auto graph =
        nodewise::ParseGraph({"fuzz.json", item.graph_json, nullptr});
    if (graph.ok()) total_ += graph->nodes.size();
  }
  void operator()(const nodewise::ConstantsItem& item) {
    for (const auto& [name, record] : item.constants) Add(name), Add(record);
    for (const auto& [symbol, constants] : item.symbols) {
      Add(symbol);
      for (const std::string_view name : constants) Add(name);
    }
  }
  void operator()(const nodewise::DeviceCodeItem& item) {
    for (const nodewise::DeviceFunction& function : item.functions) {
      Add(function.name);
      for (const std::string_view tag : function.launch_tags) Add(tag);
    }
    Add(item.format);
    Add(item.code);
  }
  void operator()(const nodewise::BytecodeItem& item) {
    for (const uint8_t byte : item.bytes) total_ += byte;
  }
  uint64_t total() const { return total_; }

 private:
  uint64_t total_ = 0;
};

}  // namespace

// Any bytes are an error, or modules whose every part can be read and whose
// children are modules.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const nodewise::MemoryLimit limit(size);
  const auto blob = nodewise::ParseModuleBlob({data, size}, "fuzz.so");
  if (!blob.ok()) return 0;
  Sum sum;
  for (const nodewise::BlobItem& item : blob->items) {
    sum.Add(item.key);
    std::visit([&](const auto& content) { sum(content); }, item.content);
  }
  NODEWISE_CHECK(!blob->has_import_tree() ||
                 blob->children.size() == blob->items.size());
  for (const auto& children : blob->children) {
    for (const uint32_t child : children) {
      NODEWISE_CHECK(child < blob->items.size());
    }
  }
  // Read everything, but let the compiler think that it matters.
  volatile uint64_t sink = sum.total();
  static_cast<void>(sink);
  return 0;
}

#include <cstdint>
#include <string>

#include "nodewise/dump/dump.h"
#include "nodewise/support/check.h"
#include "tests/fuzz/memory_limit.h"

namespace nodewise {
namespace {

// Reads a file that may be cut: either an error, or the tensors that a reader
// of the complete file returns, and these alone can be written again.
void ReadTensors(absl::Span<const uint8_t> data) {
  const auto partial = ParsePartialParams(data, "fuzz.params", nullptr);
  const auto whole = ParseParams(data, "fuzz.params", nullptr);
  NODEWISE_CHECK(partial.ok() || !whole.ok());
  if (!partial.ok()) return;
  NODEWISE_CHECK(partial->is_cut == !whole.ok());
  NODEWISE_CHECK(partial->is_cut || partial->missing.empty());
  const auto& tensors = partial->params.tensors;
  NODEWISE_CHECK(!whole.ok() || whole->tensors.size() == tensors.size());
  const auto bytes = SerializeParams(tensors);
  NODEWISE_CHECK(bytes.ok());
  const auto again = ParseParams(
      {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, "again",
      nullptr);
  NODEWISE_CHECK(again.ok() && again->tensors.size() == tensors.size());
  for (const NamedTensor& entry : tensors) {
    const auto key = ParseDumpKey(entry.name);
    NODEWISE_CHECK(!key.ok() || !key->has_topo_index ||
                   DumpKeyOf(key->node, NodeId{key->topo_index}, key->output) ==
                       entry.name);
  }
}

void ReadRecords(absl::Span<const uint8_t> data) {
  const auto records = ParseNodeRecords(data, "fuzz.bin");
  NODEWISE_CHECK(!records.ok() || records->size() <= data.size() / 32);
}

}  // namespace
}  // namespace nodewise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const nodewise::MemoryLimit limit(size);
  nodewise::ReadTensors({data, size});
  nodewise::ReadRecords({data, size});
  return 0;
}

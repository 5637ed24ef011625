#include <cstddef>
#include <cstdint>
#include <string>

#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/check.h"
#include "tests/fuzz/memory_limit.h"
#include "tests/support/network_ops.h"

namespace nodewise {
namespace {

// Edits a valid network, which must stay valid.
void Edit(Network network) {
  for (const ValueId id :
       std::vector<ValueId>(network.inputs().begin(), network.inputs().end())) {
    network.SetInputType(id, TensorType()).IgnoreError();
  }
  if (network.order().size() > 1) {
    network.RunAfter(network.order().back(), network.order().front())
        .IgnoreError();
  }
  NODEWISE_CHECK(ToStatus(Verify(network.data())).ok());
  network.RemoveUnused();
  NODEWISE_CHECK(ToStatus(Verify(network.data())).ok());
}

// Any text is an error, or data that comes back the same from the text that it
// is written as, and that is a network if it has no faults.
void ReadAndWriteBack(std::string_view text) {
  const MemoryLimit limit(text.size());
  const auto data = ParseNetworkText(text, test_ops::Ops(), "fuzz");
  if (!data.ok()) return;
  const std::string written = NetworkToText(*data);
  const auto again = ParseNetworkText(written, test_ops::Ops(), "again");
  NODEWISE_CHECK(again.ok() && NetworkToText(*again) == written);
  const auto findings = Verify(*data);
  FindingReport(findings);
  auto network = Network::FromData(*data);
  NODEWISE_CHECK(network.ok() == ToStatus(findings).ok());
  if (network.ok()) Edit(*std::move(network));
}

}  // namespace
}  // namespace nodewise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nodewise::ReadAndWriteBack({reinterpret_cast<const char*>(data), size});
  return 0;
}

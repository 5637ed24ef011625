#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nodewise/graph/params.h"
#include "nodewise/support/check.h"
#include "tests/fuzz/memory_limit.h"

namespace nodewise {
namespace {

absl::Span<const uint8_t> BytesOf(const NDArray& tensor) {
  return {tensor.As<const uint8_t>(), tensor.bytes()};
}

bool SameTensor(const NamedTensor& a, const NamedTensor& b) {
  return a.name == b.name && a.tensor.shape() == b.tensor.shape() &&
         a.tensor.dtype() == b.tensor.dtype() &&
         BytesOf(a.tensor) == BytesOf(b.tensor);
}

// Any bytes are an error, or tensors that come back the same from the bytes
// that they are written as.
void ReadAndWriteBack(absl::Span<const uint8_t> data) {
  const MemoryLimit limit(data.size());
  const auto names = ParseParamNames(data, "fuzz.params");
  const auto params = ParseParams(data, "fuzz.params", nullptr);
  if (!params.ok()) return;
  NODEWISE_CHECK(LooksLikeParams(data));
  NODEWISE_CHECK(names.ok() && names->size() == params->tensors.size());
  const auto bytes = SerializeParams(params->tensors);
  NODEWISE_CHECK(bytes.ok() &&
                 bytes->size() + params->trailing_bytes == data.size());
  const auto again = ParseParams(
      {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, "again",
      nullptr);
  NODEWISE_CHECK(again.ok() && again->trailing_bytes == 0);
  NODEWISE_CHECK(std::equal(params->tensors.begin(), params->tensors.end(),
                            again->tensors.begin(), again->tensors.end(),
                            &SameTensor));
}

}  // namespace
}  // namespace nodewise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nodewise::ReadAndWriteBack({data, size});
  return 0;
}

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "contrib/tensors/numpy.h"
#include "nodewise/support/check.h"

// Any bytes are an error, or an array that comes back the same from the bytes
// that it would be written as.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensor = nodewise::ParseNpy({data, size}, "fuzz.npy");
  if (!tensor.ok()) return 0;
  NODEWISE_CHECK(tensor->bytes() < size);
  const auto header = nodewise::MakeNpyHeader(tensor->shape(), tensor->dtype());
  NODEWISE_CHECK(header.ok());
  std::string bytes = *header;
  bytes.append(tensor->As<char>(), tensor->bytes());
  const auto again = nodewise::ParseNpy(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "again");
  NODEWISE_CHECK(again.ok() && again->shape() == tensor->shape());
  NODEWISE_CHECK(std::memcmp(again->data(), tensor->data(), tensor->bytes()) ==
                 0);
  return 0;
}

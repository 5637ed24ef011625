#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "nodewise/support/check.h"
#include "nodewise/tensors/tensor_proto.h"

// Any bytes are an error, or a tensor that comes back the same from the bytes
// that it would be written as.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = nodewise::ParseTensorProto({data, size}, "fuzz.pb");
  if (!read.ok()) return 0;
  const std::string bytes = nodewise::WriteTensorProto(*read).value();
  const auto again = nodewise::ParseTensorProto(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "again");
  NODEWISE_CHECK(again.ok() && again->name == read->name);
  NODEWISE_CHECK(again->tensor.shape() == read->tensor.shape());
  const size_t length = read->tensor.bytes();
  NODEWISE_CHECK(length == 0 || std::memcmp(again->tensor.data(),
                                            read->tensor.data(), length) == 0);
  return 0;
}

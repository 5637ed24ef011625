#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "contrib/tensors/numpy.h"
#include "contrib/tensors/zip.h"

namespace {

// A changed member seldom keeps its CRC-32, so unpacking is also run by itself;
// its result must have the requested length.
uint64_t UnpackAll(absl::Span<const uint8_t> bytes) {
  const auto members = nodewise::ReadZipDirectory(bytes, "fuzz.npz");
  if (!members.ok()) return 0;
  uint64_t sum = 0;
  for (const nodewise::ZipMember& member : *members) {
    std::string buffer;
    const auto unpacked = nodewise::UnpackZipMember(member, &buffer);
    if (unpacked.ok() && unpacked->size() != member.size) __builtin_trap();
    sum += unpacked.ok() ? unpacked->size() : buffer.size();
  }
  return sum;
}

}  // namespace

// Any bytes are an error, or arrays that can be read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t sum = UnpackAll({data, size});
  const auto tensors = nodewise::ParseNpz({data, size}, "fuzz.npz");
  if (tensors.ok()) {
    for (const nodewise::NamedTensor& entry : *tensors) {
      sum += static_cast<uint64_t>(
          crc32_z(0, entry.tensor.As<uint8_t>(), entry.tensor.bytes()));
    }
  }
  // Read everything, but let the compiler think that it matters.
  volatile uint64_t sink = sum;
  static_cast<void>(sink);
  return 0;
}

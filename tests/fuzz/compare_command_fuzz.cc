#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/command_run.h"

namespace {

constexpr std::array kEndings = {".npz", ".npy", ".params", ".pb"};

}  // namespace

// The first byte says what the files are, the second where the first file ends:
// two sources of tensors, which are compared, or an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const absl::Span<const uint8_t> bytes(data + 3, size - 3);
  const size_t cut = std::min(size_t{data[1]} << 8 | data[2], bytes.size());
  const std::string expected = nodewise::CommandFile(
      std::string("a") + kEndings[data[0] % 4], bytes.first(cut));
  const std::string actual = nodewise::CommandFile(
      std::string("b") + kEndings[data[0] / 4 % 4], bytes.subspan(cut));
  std::vector<std::string> arguments = {expected, actual};
  if (data[0] & 0x10) arguments.push_back("--fuzzy");
  if (data[0] & 0x20) arguments.push_back("--convert");
  nodewise::RunVerb("compare", arguments);
  return 0;
}

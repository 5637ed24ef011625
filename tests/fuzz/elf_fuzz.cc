#include <cstddef>
#include <cstdint>

#include "runtime/module/elf.h"

// Any bytes are an error, or a file whose every part can be read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = nodewise::ParseElf({data, size}, "fuzz.so");
  if (!file.ok()) return 0;
  uint64_t sum = nodewise::CheckLoadable(*file).ok() ? 1 : 0;
  for (const nodewise::ElfSymbol& symbol : file->symbols) {
    const auto bytes = nodewise::BytesAt(*file, symbol.value);
    if (bytes.ok()) sum += bytes->front() + bytes->back();
    for (const char c : symbol.name) sum += static_cast<uint8_t>(c);
  }
  for (const std::string_view name : file->needed) sum += name.size();
  sum += nodewise::FunctionNames(*file).size();
  // Read everything, but let the compiler think that it matters.
  volatile uint64_t sink = sum;
  static_cast<void>(sink);
  return 0;
}

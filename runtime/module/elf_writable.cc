#include <algorithm>

#include "runtime/module/elf.h"

namespace nodewise {
namespace {

bool Overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b ? b - a < a_size : a - b < b_size;
}

}  // namespace

bool IsWritable(const ElfFile& file, const ElfSymbol& symbol, uint64_t size) {
  // The value of a thread's variable is not an address.
  const bool is_memory =
      symbol.defined && (symbol.kind == ElfSymbol::Kind::kData ||
                         symbol.kind == ElfSymbol::Kind::kNone);
  // Many tools leave a symbol's size 0.
  if (!is_memory || (symbol.size != 0 && symbol.size < size)) return false;
  if (Overlap(symbol.value, size, file.relro_address, file.relro_size)) {
    return false;
  }
  return std::any_of(file.segments.begin(), file.segments.end(),
                     [&](const ElfSegment& segment) {
                       const uint64_t skip = symbol.value - segment.address;
                       return segment.is_writable &&
                              symbol.value >= segment.address &&
                              skip < segment.memory_size &&
                              size <= segment.memory_size - skip;
                     });
}

}  // namespace nodewise

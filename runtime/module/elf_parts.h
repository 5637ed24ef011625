#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

// The pieces with which elf.cc reads ELF files; for that file alone.
namespace nodewise::elf_parts {

using Bytes = absl::Span<const uint8_t>;

#if defined(__x86_64__)
inline constexpr int kThisMachine = EM_X86_64;
#elif defined(__aarch64__)
inline constexpr int kThisMachine = EM_AARCH64;
#elif defined(__arm__)
inline constexpr int kThisMachine = EM_ARM;
#elif defined(__riscv)
inline constexpr int kThisMachine = EM_RISCV;
#elif defined(__i386__)
inline constexpr int kThisMachine = EM_386;
#else
inline constexpr int kThisMachine = EM_NONE;
#endif

inline constexpr int kBitsHere = 8 * sizeof(void*);

// The records of the two widths. They are read as they lie in memory, so this
// needs a little-endian host.
struct Elf32 {
  static constexpr int kBits = 32;
  using Header = Elf32_Ehdr;
  using Segment = Elf32_Phdr;
  using Section = Elf32_Shdr;
  using Dynamic = Elf32_Dyn;
  using Symbol = Elf32_Sym;
  using FilterWord = uint32_t;
};

struct Elf64 {
  static constexpr int kBits = 64;
  using Header = Elf64_Ehdr;
  using Segment = Elf64_Phdr;
  using Section = Elf64_Shdr;
  using Dynamic = Elf64_Dyn;
  using Symbol = Elf64_Sym;
  using FilterWord = uint64_t;
};

// Precedes the filter, the buckets and the chains of DT_GNU_HASH.
struct GnuHashHeader {
  uint32_t num_buckets;
  uint32_t first_symbol;  // The table lacks the symbols before it.
  uint32_t num_filter_words;
  uint32_t filter_shift;
};

// What the dynamic section says; addresses, except where noted.
struct DynamicSection {
  std::optional<uint64_t> strings;
  std::optional<uint64_t> strings_size;  // In bytes.
  std::optional<uint64_t> symbols;
  std::optional<uint64_t> symbol_size;  // The size of one, in bytes.
  std::optional<uint64_t> hash;
  std::optional<uint64_t> gnu_hash;
  std::optional<uint64_t> soname;  // Offset in the strings.
  std::vector<uint64_t> needed;    // Offsets in the strings.
  // A position-independent program has the type of a shared library, but the
  // loader refuses to open it as one.
  bool is_program = false;

  void Add(int64_t tag, uint64_t value) {
    if (tag == DT_STRTAB) strings = value;
    if (tag == DT_STRSZ) strings_size = value;
    if (tag == DT_SYMTAB) symbols = value;
    if (tag == DT_SYMENT) symbol_size = value;
    if (tag == DT_HASH) hash = value;
    if (tag == DT_GNU_HASH) gnu_hash = value;
    if (tag == DT_SONAME) soname = value;
    if (tag == DT_NEEDED) needed.push_back(value);
    if (tag == DT_FLAGS_1) is_program = (value & DF_1_PIE) != 0;
  }
};

inline absl::Status CutShort(const std::string& where, const std::string& part,
                             uint64_t offset, uint64_t size,
                             uint64_t file_size) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const uint64_t end = size > most - offset ? most : offset + size;
  return absl::DataLossError(where + ": " + part + " ends at byte " +
                             std::to_string(end) + ", but the file has " +
                             std::to_string(file_size) +
                             " bytes: the file is cut short");
}

inline bool Fits(Bytes bytes, uint64_t offset, uint64_t size) {
  return size <= bytes.size() && offset <= bytes.size() - size;
}

// REQUIRES: the bytes hold item `index`.
template <typename T>
T Item(Bytes items, size_t index) {
  T item;
  std::memcpy(&item, items.data() + index * sizeof(T), sizeof(T));
  return item;
}

// Looks names up by offset. Names may share bytes, so a table without zeros
// could make each of a million symbols as long as the table; the bytes handed
// out in all are therefore limited to a multiple of the table's size. Real
// libraries stay below 3 times (a name for each of its versions).
class StringTable {
 public:
  StringTable(Bytes bytes, std::string where)
      : bytes_(bytes),
        where_(std::move(where)),
        budget_(4 * uint64_t{bytes.size()} + 1024) {}

  // `what` and `index` say for messages what the string is for.
  absl::StatusOr<std::string_view> At(uint64_t offset, const char* what,
                                      size_t index) {
    if (offset >= bytes_.size()) {
      return DataLoss(what, index,
                      "is at " + std::to_string(offset) +
                          ", but the string table has " +
                          std::to_string(bytes_.size()) + " bytes");
    }
    const Bytes rest = bytes_.subspan(offset);
    const void* end = std::memchr(rest.data(), 0, rest.size());
    if (end == nullptr) {
      return DataLoss(what, index, "has no end in the string table");
    }
    const size_t size = static_cast<const uint8_t*>(end) - rest.data();
    if (size > budget_) {
      return DataLoss(what, index,
                      "and those before it are over 4 times as long as the "
                      "string table they are in");
    }
    budget_ -= size;
    return std::string_view(reinterpret_cast<const char*>(rest.data()), size);
  }

 private:
  absl::Status DataLoss(const char* what, size_t index,
                        const std::string& message) const {
    return absl::DataLossError(where_ + ": name of " + what + " " +
                               std::to_string(index) + " " + message);
  }

  Bytes bytes_;
  std::string where_;
  uint64_t budget_;
};

}  // namespace nodewise::elf_parts

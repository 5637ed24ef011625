#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// What an ELF file says about itself, read from untrusted bytes and without
// loading code: a compiled model can be looked at, and refused, before any
// constructor of it runs.

// One entry of the dynamic symbol table.
struct ElfSymbol {
  enum class Kind { kNone, kData, kFunction, kOther };

  std::string_view name;
  uint64_t value = 0;  // An address if `defined`; see BytesAt.
  uint64_t size = 0;   // In bytes; many tools leave it 0.
  Kind kind = Kind::kNone;
  bool defined = false;  // Else another library must have it.
  bool weak = false;
  bool local = false;  // Others cannot find it by name.

  // Return what others find by its name.
  bool IsExported() const { return defined && !local; }
  bool IsFunction() const { return IsExported() && kind == Kind::kFunction; }
  bool IsVariable() const { return IsExported() && kind != Kind::kFunction; }
};

// A range of the file that is loaded to a range of addresses.
struct ElfSegment {
  uint32_t index = 0;  // Its program header, counted from 0 as in readelf.
  uint64_t address = 0;
  uint64_t offset = 0;       // Where in the file it begins.
  uint64_t file_size = 0;    // Lies inside the file.
  uint64_t memory_size = 0;  // What exceeds `file_size` is zeros.
  bool is_writable = false;  // See also ElfFile::relro_address.
};

// Everything in here borrows the parsed bytes. It is a plain value: any thread
// may read it.
struct ElfFile {
  std::string where;  // The name for messages.
  absl::Span<const uint8_t> bytes;

  std::string machine;  // "x86-64", "aarch64", "arm", "riscv", "i386", or
                        // "machine 123".
  int bits = 0;         // 32 or 64.
  // "shared library", "program", "object file", "core dump", or "type 123".
  std::string type;
  std::string_view soname;               // Empty if it has none.
  std::vector<std::string_view> needed;  // Libraries it needs, in file order.
  std::vector<ElfSymbol> symbols;        // In file order, without the null one.
  std::vector<ElfSegment> segments;      // By address; they do not overlap.
  // What the loader makes read-only when it has filled it in; 0 bytes if none.
  uint64_t relro_address = 0, relro_size = 0;
  std::string build_id;              // In hex; empty if it has none.
  bool has_dynamic_section = false;  // Else nothing can be linked to it.
};

// Reads little-endian ELF files of 32 and 64 bits. Symbols are found the way
// the loader finds them, so section headers may be missing. Takes time and
// memory in proportion to the file's size, regardless of its contents. Returns
// kInvalidArgument for a file that is not ELF, kUnimplemented for big-endian
// ones, kDataLoss for one that is damaged or cut short.
absl::StatusOr<ElfFile> ParseElf(absl::Span<const uint8_t> bytes,
                                 std::string where);

// Returns the bytes from that address to the end of what its segment has in the
// file; never empty. Valid as long as the parsed bytes are.
// Fails with kDataLoss if the file has no byte for the address.
absl::StatusOr<absl::Span<const uint8_t>> BytesAt(const ElfFile& file,
                                                  uint64_t address);

// Returns the symbol that others would find by that name, which is defined and
// not local, or null. Takes time in proportion to the number of symbols.
const ElfSymbol* FindSymbol(const ElfFile& file, std::string_view name);

// Returns whether a symbol stands for memory of this size that can be written
// to while the library is loaded.
bool IsWritable(const ElfFile& file, const ElfSymbol& symbol, uint64_t size);

// Returns the names of the functions that others would find, in file order.
std::vector<std::string> FunctionNames(const ElfFile& file);

// Returns OK if the loader of this process could be given the file: a shared
// library for the machine that this was compiled for, with segments that fit.
// It does not promise that the libraries it needs can be found.
// Returns kInvalidArgument for another type of file, kUnimplemented for
// another machine's, kDataLoss for a damaged one.
absl::Status CheckLoadable(const ElfFile& file);

}  // namespace nodewise

#include "runtime/module/elf.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/module/elf_builder.h"

namespace nodewise {
namespace {

using elf_builder::Build;
using elf_builder::Count;
using elf_builder::FileBytes;
using elf_builder::kCodeAddress;
using elf_builder::kData;
using elf_builder::kDataAddress;
using elf_builder::Recipe;
using elf_builder::Width;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(absl::Span<const uint8_t> bytes) {
  return std::string(bytes.begin(), bytes.end());
}

// Reads all there is to read; for ASan to watch.
void ReadAll(const ElfFile& file) {
  CheckLoadable(file).IgnoreError();
  for (const ElfSymbol& symbol : file.symbols) {
    const auto bytes = BytesAt(file, symbol.value);
    if (bytes.ok()) Text(*bytes);
    EXPECT_EQ(std::strlen(symbol.name.data()), symbol.name.size());
  }
  FunctionNames(file);
}

// In a block of its own size, so that ASan sees a read past the end.
absl::Status ParseInOwnBlock(const uint8_t* bytes, size_t size) {
  const auto block = std::make_unique<uint8_t[]>(size);
  std::copy_n(bytes, size, block.get());
  const auto file = ParseElf({block.get(), size}, "net.so");
  if (file.ok()) ReadAll(*file);
  return file.status();
}

std::string CaseName(const ::testing::TestParamInfo<Recipe>& info) {
  const char* const counts[] = {"Hash", "GnuHash", "EmptyGnuHash", "Sections"};
  return std::string(counts[static_cast<int>(info.param.count)]) +
         (info.param.width == Width::k64 ? "64" : "32");
}

class ElfWidthTest : public ::testing::TestWithParam<Recipe> {};

INSTANTIATE_TEST_SUITE_P(All, ElfWidthTest,
                         ::testing::Values(Recipe{Width::k64, Count::kHash},
                                           Recipe{Width::k64, Count::kGnuHash},
                                           Recipe{Width::k64, Count::kSections},
                                           Recipe{Width::k32, Count::kHash},
                                           Recipe{Width::k32, Count::kGnuHash},
                                           Recipe{Width::k32,
                                                  Count::kSections}),
                         CaseName);

TEST_P(ElfWidthTest, SymbolsComeInFileOrderWithoutTheNullOne) {
  const FileBytes bytes = Build(GetParam());
  const auto file = ParseElf(bytes, "net.so");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> lines;
  for (const ElfSymbol& s : file->symbols) {
    lines.push_back(std::string(s.name) + (s.defined ? " defined" : "") +
                    (s.weak ? " weak" : "") + (s.local ? " local" : "") +
                    " kind " + std::to_string(static_cast<int>(s.kind)) +
                    " at " + std::to_string(s.value) + " size " +
                    std::to_string(s.size));
  }
  EXPECT_THAT(lines, ElementsAre("wanted kind 2 at 0 size 0",
                                 "net_add defined kind 2 at 65536 size 12",
                                 "net_relu defined kind 2 at 65552 size 12",
                                 "net_data defined weak kind 1 at 262152 "
                                 "size 12",
                                 "net_local defined local kind 2 at 65568 "
                                 "size 12"));
}

TEST_P(ElfWidthTest, HeaderSegmentsLibrariesAndBuildIdAreRead) {
  const FileBytes bytes = Build(GetParam());
  const auto file = ParseElf(bytes, "net.so");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->machine, "x86-64");
  EXPECT_EQ(file->bits, GetParam().width == Width::k64 ? 64 : 32);
  EXPECT_EQ(file->type, "shared library");
  EXPECT_EQ(file->soname, "net_data");
  EXPECT_THAT(file->needed, ElementsAre("net_add", "net_relu"));
  EXPECT_EQ(file->build_id, "0123456789abcdef");
  ASSERT_EQ(file->segments.size(), 2);
  EXPECT_EQ(file->segments[0].address, kCodeAddress);
  EXPECT_EQ(file->segments[1].index, 2);
  EXPECT_EQ(file->segments[1].offset, file->segments[0].file_size);
  EXPECT_EQ(file->segments[1].memory_size, sizeof(kData) + 16);
}

TEST_P(ElfWidthTest, BytesAtGoesToTheEndOfTheFilePart) {
  const FileBytes bytes = Build(GetParam());
  const auto file = ParseElf(bytes, "net.so");
  ASSERT_TRUE(file.ok()) << file.status();
  const ElfSymbol* symbol = FindSymbol(*file, "net_data");
  ASSERT_NE(symbol, nullptr);
  const auto data = BytesAt(*file, symbol->value);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(Text(*data), std::string("the net\0", 8));
  // In the zeros, in the gap between the segments, before the first.
  for (const uint64_t address :
       {kDataAddress + sizeof(kData), kDataAddress - 1, kCodeAddress - 1}) {
    const auto outside = BytesAt(*file, address);
    EXPECT_EQ(outside.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(outside.status().message()),
                HasSubstr("net.so: address 0x"));
  }
}

TEST_P(ElfWidthTest, EveryTruncationFailsOrLacksOnlySectionHeaders) {
  const FileBytes bytes = Build(GetParam());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = ParseInOwnBlock(bytes.data(), size);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << status;
  }
}

TEST_P(ElfWidthTest, EveryFlippedByteIsReadSafely) {
  FileBytes bytes = Build(GetParam());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      bytes[i] ^= flip;
      const auto status = ParseInOwnBlock(bytes.data(), bytes.size());
      if (!status.ok()) {
        EXPECT_EQ(status.message().substr(0, 8), "net.so: ") << status;
      }
      bytes[i] ^= flip;
    }
  }
}

TEST(ElfTest, OnlyDefinedSymbolsThatAreNotLocalAreFound) {
  const FileBytes bytes = Build({});
  const auto file = ParseElf(bytes, "net.so");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(FunctionNames(*file), ElementsAre("net_add", "net_relu"));
  EXPECT_NE(FindSymbol(*file, "net_relu"), nullptr);
  EXPECT_EQ(FindSymbol(*file, "wanted"), nullptr);
  EXPECT_EQ(FindSymbol(*file, "net_local"), nullptr);
  EXPECT_EQ(FindSymbol(*file, "net_"), nullptr);
}

// GNU ld writes such a table where nothing is defined; the names it wants
// from others are then not counted.
TEST(ElfTest, EmptyGnuHashTableMeansNoSymbols) {
  const FileBytes bytes = Build({.count = Count::kEmptyGnuHash});
  const auto file = ParseElf(bytes, "net.so");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->symbols, IsEmpty());
}

struct LoadableCase {
  Recipe recipe;
  absl::StatusCode code;
  std::string message;
};

#if defined(__x86_64__)
TEST(ElfTest, LoadableIsASharedLibraryForThisMachine) {
  const LoadableCase cases[] = {
      {{}, absl::StatusCode::kOk, ""},
      {{.machine = EM_AARCH64},
       absl::StatusCode::kUnimplemented,
       "net.so: is built for aarch64, this is x86-64"},
      {{.machine = EM_ARM}, absl::StatusCode::kUnimplemented, "for arm, this"},
      {{.machine = EM_RISCV}, absl::StatusCode::kUnimplemented, "for riscv,"},
      {{.machine = EM_386}, absl::StatusCode::kUnimplemented, "for i386,"},
      {{.machine = 123}, absl::StatusCode::kUnimplemented, "for machine 123,"},
      {{.width = Width::k32},
       absl::StatusCode::kUnimplemented,
       "net.so: is built for 32 bits, this is a program of 64 bits"},
      {{.type = ET_REL},
       absl::StatusCode::kInvalidArgument,
       "type \"object file\", expected a shared library"},
      {{.type = ET_EXEC}, absl::StatusCode::kInvalidArgument, "\"program\""},
      {{.is_pie = true}, absl::StatusCode::kInvalidArgument, "\"program\""},
      {{.type = ET_CORE}, absl::StatusCode::kInvalidArgument, "\"core dump\""},
      {{.type = 77}, absl::StatusCode::kInvalidArgument, "\"type 77\""},
      {{.has_dynamic = false},
       absl::StatusCode::kDataLoss,
       "net.so: has no dynamic section"},
  };
  for (const LoadableCase& c : cases) {
    const FileBytes bytes = Build(c.recipe);
    const auto file = ParseElf(bytes, "net.so");
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status status = CheckLoadable(*file);
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}
#endif

TEST(ElfTest, WhatIsNotAnElfFileIsShown) {
  struct Case {
    std::string text;
    absl::StatusCode code;
    std::string message;
  };
  const std::string elf64 = std::string("\x7f") + "ELF\2\1\1";
  const std::string zeros(64, '\0');
  const Case cases[] = {
      {"", absl::StatusCode::kDataLoss, "x.so: is empty, expected an ELF file"},
      {"PK\3\4 and more", absl::StatusCode::kInvalidArgument,
       "x.so: is not an ELF file (starts with 50 4b 03 04)"},
      {"INPUT(-lm)\nGROUP(x)", absl::StatusCode::kInvalidArgument,
       "(starts with \"INPUT(-lm)\\nGROUP\")"},
      {std::string(1, '\0'), absl::StatusCode::kInvalidArgument, "with 00)"},
      {elf64.substr(0, 3), absl::StatusCode::kDataLoss, "file has 3 bytes"},
      {elf64 + zeros.substr(0, 50), absl::StatusCode::kDataLoss,
       "ELF header ends at byte 64, but the file has 57 bytes"},
      {std::string("\x7f") + "ELF\3\1\1" + zeros, absl::StatusCode::kDataLoss,
       "ELF class is 3, expected 1"},
      {std::string("\x7f") + "ELF\2\2\1" + zeros,
       absl::StatusCode::kUnimplemented,
       "x.so: is a big-endian ELF file, expected little-endian"},
      {std::string("\x7f") + "ELF\2\3\1" + zeros, absl::StatusCode::kDataLoss,
       "byte order is 3"},
  };
  for (const Case& c : cases) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(c.text.data());
    const auto file = ParseElf({bytes, c.text.size()}, "x.so");
    EXPECT_EQ(file.status().code(), c.code) << file.status();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(c.message));
  }
}

Elf64_Phdr* Segment(FileBytes& bytes, size_t index) {
  return reinterpret_cast<Elf64_Phdr*>(bytes.data() + sizeof(Elf64_Ehdr)) +
         index;
}

// The dynamic section is segment 3.
Elf64_Dyn* DynamicEntry(FileBytes& bytes, int64_t tag) {
  auto* entry =
      reinterpret_cast<Elf64_Dyn*>(bytes.data() + Segment(bytes, 3)->p_offset);
  while (entry->d_tag != tag) ++entry;
  return entry;
}

uint8_t* AtEntry(FileBytes& bytes, int64_t tag) {
  return bytes.data() + DynamicEntry(bytes, tag)->d_un.d_val - kCodeAddress;
}

Elf64_Sym* Symbols(FileBytes& bytes) {
  return reinterpret_cast<Elf64_Sym*>(AtEntry(bytes, DT_SYMTAB));
}

uint32_t* GnuHash(FileBytes& bytes) {
  return reinterpret_cast<uint32_t*>(AtEntry(bytes, DT_GNU_HASH));
}

struct DamageCase {
  std::function<void(FileBytes&)> damage;
  std::string message;
};

// All are done to a 64-bit library with a GNU hash table.
void ExpectDataLoss(const std::vector<DamageCase>& cases) {
  for (const DamageCase& c : cases) {
    FileBytes bytes = Build({});
    c.damage(bytes);
    const absl::Status status = ParseInOwnBlock(bytes.data(), bytes.size());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(ElfTest, SegmentsMustFitTheFileAndTheMemory) {
  ExpectDataLoss({
      {[](FileBytes& b) {
         Segment(b, 2)->p_offset = 5000;
         Segment(b, 2)->p_filesz = 16;
       },
       "net.so: segment 2 ends at byte 5016, but the file has "},
      {[](FileBytes& b) { Segment(b, 2)->p_filesz = ~uint64_t{0}; },
       "segment 2 ends at byte 18446744073709551615, but"},
      {[](FileBytes& b) { Segment(b, 2)->p_memsz = 3; },
       "segment 2 has 16 bytes in the file, but 3 in memory"},
      {[](FileBytes& b) { Segment(b, 2)->p_vaddr = ~uint64_t{0}; },
       "segment 2 ends after the last address"},
      {[](FileBytes& b) { Segment(b, 2)->p_vaddr = kCodeAddress + 1; },
       "segment 2 begins at address 0x10001, but the one before it"},
      {[](FileBytes& b) { Segment(b, 1)->p_type = PT_DYNAMIC; },
       "has two dynamic segments"},
      {[](FileBytes& b) {
         reinterpret_cast<Elf64_Ehdr*>(b.data())->e_phnum = 0xffff;
       },
       "program header table ends at byte 3670024"},
      {[](FileBytes& b) {
         reinterpret_cast<Elf64_Ehdr*>(b.data())->e_phentsize = 32;
       },
       "program headers have 32 bytes, expected 56"},
  });
}

TEST(ElfTest, DynamicSectionMustPointIntoTheFile) {
  ExpectDataLoss({
      {[](FileBytes& b) { Segment(b, 3)->p_vaddr = 0x99; },
       "net.so: address 0x99 is in no segment's part of the file"},
      {[](FileBytes& b) { Segment(b, 3)->p_filesz = 32; },
       "dynamic section of 2 entries has no end mark"},
      {[](FileBytes& b) { DynamicEntry(b, DT_STRSZ)->d_un.d_val = 9999; },
       "string table has 9999 bytes, but its segment has only"},
      {[](FileBytes& b) { DynamicEntry(b, DT_STRSZ)->d_tag = 0x7000; },
       "has a string table, but not its size"},
      {[](FileBytes& b) { DynamicEntry(b, DT_STRTAB)->d_un.d_val = 1; },
       "address 0x1 is in no segment"},
      {[](FileBytes& b) { DynamicEntry(b, DT_SYMENT)->d_un.d_val = 16; },
       "symbols have 16 bytes, expected 24"},
      {[](FileBytes& b) { DynamicEntry(b, DT_NEEDED)->d_un.d_val = 500; },
       "name of needed library 0 is at 500, but the string table has"},
      {[](FileBytes& b) { DynamicEntry(b, DT_GNU_HASH)->d_tag = 0x7000; },
       "has symbols, but no hash table or sections to count them"},
  });
}

TEST(ElfTest, SymbolsMustBeCountedAndNamed) {
  ExpectDataLoss({
      {[](FileBytes& b) { Symbols(b)[3].st_name = 1000; },
       "name of symbol 3 is at 1000, but the string table has"},
      {[](FileBytes& b) { --DynamicEntry(b, DT_STRSZ)->d_un.d_val; },
       "name of symbol 5 has no end in the string table"},
      {[](FileBytes& b) { GnuHash(b)[0] = 0xffffffff; },
       "GNU hash table: byte "},
      {[](FileBytes& b) { GnuHash(b)[2] = 0xffffffff; }, "filter needs "},
      {[](FileBytes& b) { GnuHash(b)[1] = 4; },
       "GNU hash table begins with symbol 4, but has symbol 3"},
      {[](FileBytes& b) { GnuHash(b)[6] = 0x10000; }, "chains needs "},
      {[](FileBytes& b) {
         GnuHash(b)[1] = 0xffffff;
         DynamicEntry(b, DT_GNU_HASH)->d_tag = DT_HASH;
       },
       "has 16777215 symbols, but their segment has room for only"},
  });
}

// Without a limit, a million symbols that share one long name would make
// FunctionNames() and every search over the names quadratic.
TEST(ElfTest, SharedNamesAreLimitedInAll) {
  ExpectDataLoss({
      {[](FileBytes& b) {
         const size_t old_size = b.size();
         b.resize(old_size + 600 * sizeof(Elf64_Sym) + 4000, 'a');
         b.back() = 0;
         for (size_t i = 0; i < 600; ++i) {
           const Elf64_Sym symbol = {};
           std::memcpy(b.data() + old_size + i * sizeof(symbol), &symbol,
                       sizeof(symbol));
         }
         Segment(b, 2)->p_filesz = b.size() - Segment(b, 2)->p_offset;
         Segment(b, 2)->p_memsz = Segment(b, 2)->p_filesz;
         const uint64_t added =
             kDataAddress + old_size - Segment(b, 2)->p_offset;
         GnuHash(b)[1] = 600;
         DynamicEntry(b, DT_GNU_HASH)->d_tag = DT_HASH;
         DynamicEntry(b, DT_SYMTAB)->d_un.d_val = added;
         DynamicEntry(b, DT_STRTAB)->d_un.d_val =
             added + 600 * sizeof(Elf64_Sym);
         DynamicEntry(b, DT_STRSZ)->d_un.d_val = 4000;
       },
       "over 4 times as long as the string table"},
  });
}

}  // namespace
}  // namespace nodewise

#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// Makes small ELF files, independently of the code that reads them.
namespace nodewise::elf_builder {

enum class Width { k32, k64 };
enum class Count { kHash, kGnuHash, kEmptyGnuHash, kSections };

struct Recipe {
  Width width = Width::k64;
  Count count = Count::kGnuHash;
  int type = ET_DYN;
  int machine = EM_X86_64;
  bool is_pie = false;
  bool has_dynamic = true;
};

// Address of byte 0 of the file.
inline constexpr uint64_t kCodeAddress = 0x10000;
inline constexpr uint64_t kDataAddress = 0x40000;
inline constexpr char kData[] = "data of the net";

using FileBytes = std::vector<uint8_t>;

// Writes a small shared library: a segment with everything but the last
// bytes, one with `kData` and 16 zeros after it, the dynamic section, a note.
// The symbols are one wanted (1), two functions (2, 3), data (4, weak), a
// local function (5).
class Builder {
 public:
  explicit Builder(const Recipe& recipe) : recipe_(recipe) {}

  FileBytes Build() {
    const size_t num_segments = recipe_.has_dynamic ? 4 : 3;
    bytes_.resize(HeaderSize() + num_segments * SegmentSize());
    const uint64_t symbols = AddSymbols();
    const uint64_t names = Begin();
    Add(names_.data(), names_.size());
    const uint64_t note = AddNote();
    const uint64_t count = AddCount();
    const uint64_t dynamic = AddDynamic(symbols, names, count);
    const uint64_t data = Begin();
    Add(kData, sizeof(kData));
    if (recipe_.count == Count::kSections) AddSections(symbols);
    PutHeader(num_segments);
    PutSegment(PT_LOAD, 0, kCodeAddress, data, data);
    PutSegment(PT_NOTE, note, kCodeAddress + note, 24, 24);
    PutSegment(PT_LOAD, data, kDataAddress, sizeof(kData), sizeof(kData) + 16);
    if (recipe_.has_dynamic) {
      const uint64_t size = data - dynamic;
      PutSegment(PT_DYNAMIC, dynamic, kCodeAddress + dynamic, size, size);
    }
    return bytes_;
  }

 private:
  bool Is64() const { return recipe_.width == Width::k64; }
  size_t HeaderSize() const { return Is64() ? 64 : 52; }
  size_t SegmentSize() const { return Is64() ? 56 : 32; }

  uint64_t Begin() {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return bytes_.size();
  }
  void Add(const void* data, size_t size) {
    const auto* first = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  void Add32(uint32_t value) { Add(&value, sizeof(value)); }
  void AddWord(uint64_t value) { Add(&value, Is64() ? 8 : 4); }
  uint64_t Name(const std::string& name) {
    names_ += name + '\0';
    return names_.size() - name.size() - 1;
  }

  template <typename Symbol>
  void AddSymbol(const char* name, int info, int section, uint64_t value) {
    Symbol symbol = {};
    symbol.st_name = *name == 0 ? 0 : Name(name);
    symbol.st_info = info;
    symbol.st_shndx = section;
    symbol.st_value = value;
    symbol.st_size = section == 0 ? 0 : 12;
    Add(&symbol, sizeof(symbol));
  }
  template <typename Symbol>
  uint64_t AddSymbols() {
    const uint64_t offset = Begin();
    const int function = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    AddSymbol<Symbol>("", 0, 0, 0);
    AddSymbol<Symbol>("wanted", function, SHN_UNDEF, 0);
    AddSymbol<Symbol>("net_add", function, 7, kCodeAddress);
    AddSymbol<Symbol>("net_relu", function, 7, kCodeAddress + 16);
    AddSymbol<Symbol>("net_data", ELF64_ST_INFO(STB_WEAK, STT_OBJECT), 9,
                      kDataAddress + 8);
    AddSymbol<Symbol>("net_local", ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 7,
                      kCodeAddress + 32);
    return offset;
  }
  uint64_t AddSymbols() {
    return Is64() ? AddSymbols<Elf64_Sym>() : AddSymbols<Elf32_Sym>();
  }

  uint64_t AddNote() {
    const uint64_t offset = Begin();
    for (const uint32_t value : {4u, 8u, 3u}) Add32(value);
    Add("GNU\0\x01\x23\x45\x67\x89\xab\xcd\xef", 12);
    return offset;
  }

  // The table that tells the number of symbols, if it is a hash table.
  uint64_t AddCount() {
    const uint64_t offset = Begin();
    const auto is = [this](Count count) { return recipe_.count == count; };
    const uint32_t count = 6;
    if (is(Count::kHash)) {
      for (const uint32_t value : {1u, count, 0u}) Add32(value);
      for (uint32_t i = 0; i < count; ++i) Add32(0);
    } else if (is(Count::kGnuHash)) {
      // Three buckets, of which one is empty; symbols 2 and 3 to 5.
      for (const uint32_t value : {3u, 2u, 1u, 0u}) Add32(value);
      AddWord(~uint64_t{0});
      for (const uint32_t value : {3u, 0u, 2u, 1u, 2u, 4u, 7u}) Add32(value);
    } else if (is(Count::kEmptyGnuHash)) {
      for (const uint32_t value : {1u, 1u, 1u, 0u}) Add32(value);
      AddWord(0);
      Add32(0);
    }
    return offset;
  }

  uint64_t AddDynamic(uint64_t symbols, uint64_t names, uint64_t count) {
    // The names were written before these two offsets are known, so they
    // point at the names of symbols.
    const uint64_t offset = Begin();
    const auto add = [this](uint64_t tag, uint64_t value) {
      AddWord(tag);
      AddWord(value);
    };
    add(DT_NEEDED, names_.find("net_add"));
    add(DT_NEEDED, names_.find("net_relu"));
    add(DT_SONAME, names_.find("net_data"));
    add(DT_SYMTAB, kCodeAddress + symbols);
    add(DT_SYMENT, Is64() ? 24 : 16);
    add(DT_STRTAB, kCodeAddress + names);
    add(DT_STRSZ, names_.size());
    if (recipe_.count == Count::kHash) {
      add(DT_HASH, kCodeAddress + count);
    } else if (recipe_.count != Count::kSections) {
      add(DT_GNU_HASH, kCodeAddress + count);
    }
    if (recipe_.is_pie) add(DT_FLAGS_1, DF_1_PIE);
    add(DT_NULL, 0);
    return offset;
  }

  template <typename Section>
  void AddSections(uint64_t symbols, size_t symbol_size) {
    sections_ = Begin();
    Section section = {};
    Add(&section, sizeof(section));
    section.sh_type = SHT_DYNSYM;
    section.sh_addr = kCodeAddress + symbols;
    section.sh_offset = symbols;
    section.sh_size = 6 * symbol_size;
    Add(&section, sizeof(section));
  }
  void AddSections(uint64_t symbols) {
    if (Is64()) return AddSections<Elf64_Shdr>(symbols, 24);
    AddSections<Elf32_Shdr>(symbols, 16);
  }

  template <typename Header, typename Section>
  void PutHeader(size_t num_segments) {
    Header header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = Is64() ? ELFCLASS64 : ELFCLASS32;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = recipe_.type;
    header.e_machine = recipe_.machine;
    header.e_phoff = HeaderSize();
    header.e_phentsize = SegmentSize();
    header.e_phnum = num_segments;
    header.e_shoff = sections_;
    header.e_shentsize = sizeof(Section);
    header.e_shnum = sections_ == 0 ? 0 : 2;
    std::memcpy(bytes_.data(), &header, sizeof(header));
  }
  void PutHeader(size_t num_segments) {
    if (Is64()) return PutHeader<Elf64_Ehdr, Elf64_Shdr>(num_segments);
    PutHeader<Elf32_Ehdr, Elf32_Shdr>(num_segments);
  }

  template <typename Segment>
  void PutSegmentAs(uint32_t type, uint64_t offset, uint64_t address,
                    uint64_t file_size, uint64_t memory_size) {
    Segment segment = {};
    segment.p_type = type;
    segment.p_offset = offset;
    segment.p_vaddr = address;
    segment.p_filesz = file_size;
    segment.p_memsz = memory_size;
    segment.p_align = 4;
    std::memcpy(bytes_.data() + HeaderSize() + next_++ * sizeof(segment),
                &segment, sizeof(segment));
  }
  void PutSegment(uint32_t type, uint64_t offset, uint64_t address,
                  uint64_t file_size, uint64_t memory_size) {
    const auto put = Is64() ? &Builder::PutSegmentAs<Elf64_Phdr>
                            : &Builder::PutSegmentAs<Elf32_Phdr>;
    (this->*put)(type, offset, address, file_size, memory_size);
  }

  Recipe recipe_;
  FileBytes bytes_;
  std::string names_ = std::string(1, '\0');
  uint64_t sections_ = 0;
  size_t next_ = 0;
};

inline FileBytes Build(const Recipe& recipe) { return Builder(recipe).Build(); }

}  // namespace nodewise::elf_builder

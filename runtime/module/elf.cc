#include "runtime/module/elf.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Bytes = absl::Span<const uint8_t>;

// What this code was compiled for, by the number that ELF gives the machine.
#if defined(__x86_64__)
constexpr int kThisMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kThisMachine = EM_AARCH64;
#elif defined(__arm__)
constexpr int kThisMachine = EM_ARM;
#elif defined(__riscv)
constexpr int kThisMachine = EM_RISCV;
#elif defined(__i386__)
constexpr int kThisMachine = EM_386;
#else
constexpr int kThisMachine = EM_NONE;
#endif

constexpr int kBitsHere = 8 * sizeof(void*);

// Precedes the filter, the buckets and the chains of DT_GNU_HASH.
struct GnuHashHeader {
  uint32_t num_buckets;
  uint32_t first_symbol;  // The table lacks the symbols before it.
  uint32_t num_filter_words;
  uint32_t filter_shift;
};

// What the dynamic section says; addresses, except where noted. A tag that
// comes twice counts as the loader takes it, the last one; only needed
// libraries are a list.
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

// A hostile offset and size may add up to more than a number holds.
absl::Status TruncatedError(const std::string& where, const std::string& part,
                            uint64_t offset, uint64_t size,
                            uint64_t file_size) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const uint64_t end = size > most - offset ? most : offset + size;
  return DataLoss(
      "{}: {} ends at byte {}, but the file has {} bytes: the file is cut "
      "short",
      where, part, end, file_size);
}

// Asks by differences, since a sum could begin again at 0.
bool Fits(Bytes bytes, uint64_t offset, uint64_t size) {
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
      return Bad(what, index,
                 fmt::format("is at {}, but the string table has {} bytes",
                             offset, bytes_.size()));
    }
    const Bytes rest = bytes_.subspan(offset);
    const void* end = std::memchr(rest.data(), 0, rest.size());
    if (end == nullptr) {
      return Bad(what, index, "has no end in the string table");
    }
    const size_t size = static_cast<const uint8_t*>(end) - rest.data();
    if (size > budget_) {
      return Bad(what, index,
                 "and those before it are over 4 times as long as the string "
                 "table they are in");
    }
    budget_ -= size;
    return std::string_view(reinterpret_cast<const char*>(rest.data()), size);
  }

 private:
  absl::Status Bad(const char* what, size_t index,
                   std::string_view message) const {
    return DataLoss("{}: name of {} {} {}", where_, what, index, message);
  }

  Bytes bytes_;
  std::string where_;
  uint64_t budget_;
};

constexpr char kSharedLibrary[] = "shared library";
constexpr char kProgram[] = "program";

// Other machines are shown by their number; they are refused all the same.
std::string MachineName(int machine) {
  if (machine == EM_X86_64) return "x86-64";
  if (machine == EM_AARCH64) return "aarch64";
  if (machine == EM_ARM) return "arm";
  if (machine == EM_RISCV) return "riscv";
  if (machine == EM_386) return "i386";
  return fmt::format("machine {}", machine);
}

// Only a shared library can be loaded; the others are named in the message.
std::string TypeName(int type) {
  if (type == ET_REL) return "object file";
  if (type == ET_EXEC) return kProgram;
  if (type == ET_DYN) return kSharedLibrary;
  if (type == ET_CORE) return "core dump";
  return fmt::format("type {}", type);
}

// Returns the first bytes, as text if they are text: it shows at a glance that
// a file is really a linker script or an error page.
std::string Beginning(Bytes bytes) {
  const Bytes first = bytes.subspan(0, 16);
  const bool is_text = std::ranges::all_of(first, [](uint8_t c) {
    return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r');
  });
  if (is_text) {
    return fmt::format(
        "\"{}\"", absl::CHexEscape({reinterpret_cast<const char*>(first.data()),
                                    first.size()}));
  }
  std::string hex;
  for (const uint8_t byte : first.subspan(0, 4)) {
    if (!hex.empty()) hex += ' ';
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

// Checks the part of e_ident that decides how the rest is read. Class and byte
// order say how wide and in which order all numbers after them are.
absl::Status CheckIdent(Bytes bytes, const std::string& where) {
  if (bytes.empty()) {
    return DataLoss("{}: is empty, expected an ELF file", where);
  }
  const size_t magic_size = std::min<size_t>(bytes.size(), SELFMAG);
  if (std::memcmp(bytes.data(), ELFMAG, magic_size) != 0) {
    return InvalidArgument("{}: is not an ELF file (starts with {})", where,
                           Beginning(bytes));
  }
  if (bytes.size() < EI_NIDENT) {
    return TruncatedError(where, "ELF header", 0, sizeof(Elf32_Ehdr),
                          bytes.size());
  }
  const int elf_class = bytes[EI_CLASS];
  if (elf_class != ELFCLASS32 && elf_class != ELFCLASS64) {
    return DataLoss("{}: ELF class is {}, expected 1 (32-bit) or 2 (64-bit)",
                    where, elf_class);
  }
  if (bytes[EI_DATA] == ELFDATA2MSB) {
    return Unimplemented("{}: is a big-endian ELF file, expected little-endian",
                         where);
  }
  if (bytes[EI_DATA] != ELFDATA2LSB) {
    return DataLoss("{}: ELF byte order is {}, expected 1 (little-endian)",
                    where, bytes[EI_DATA]);
  }
  return absl::OkStatus();
}

// Reads a file of one of the two widths into an ElfFile. The records of that
// width are read as they lie in memory, so this needs a little-endian host.
// Every offset, size and count comes from the file and may be any number: each
// is checked against the bytes that there are before it is used, and by
// differences, since sums of them may wrap around. The order is that of the
// loader: segments, the dynamic section in them, then the tables that it names.
template <int bits, typename Header, typename Segment, typename Section,
          typename Dynamic, typename Symbol>
class Parser {
 public:
  Parser(Bytes bytes, std::string where) : notes_budget_(bytes.size()) {
    file_.where = std::move(where);
    file_.bytes = bytes;
    file_.bits = bits;
  }

  absl::StatusOr<ElfFile> Parse() {
    NODEWISE_RETURN_IF_ERROR(ReadHeader());
    NODEWISE_RETURN_IF_ERROR(ReadSegments());
    if (!dynamic_segment_.has_value()) return std::move(file_);
    file_.has_dynamic_section = true;
    NODEWISE_RETURN_IF_ERROR(ReadDynamicSection());
    if (dynamic_.is_program) file_.type = kProgram;
    NODEWISE_ASSIGN_OR_RETURN(StringTable strings, FindStrings());
    NODEWISE_RETURN_IF_ERROR(ReadLibraryNames(strings));
    NODEWISE_RETURN_IF_ERROR(ReadSymbols(strings));
    return std::move(file_);
  }

 private:
  template <typename... Args>
  absl::Status Damaged(fmt::format_string<Args...> format,
                       Args&&... args) const {
    return At(file_.where, DataLoss(format, std::forward<Args>(args)...));
  }

  // The one way to bytes of the file by their offset.
  absl::StatusOr<Bytes> Part(const std::string& part, uint64_t offset,
                             uint64_t size) const {
    if (!Fits(file_.bytes, offset, size)) {
      return TruncatedError(file_.where, part, offset, size,
                            file_.bytes.size());
    }
    return file_.bytes.subspan(offset, size);
  }

  // A file without program headers may have any number as their size.
  absl::Status ReadHeader() {
    NODEWISE_ASSIGN_OR_RETURN(const Bytes bytes,
                              Part("ELF header", 0, sizeof(Header)));
    header_ = Item<Header>(bytes, 0);
    file_.machine = MachineName(header_.e_machine);
    file_.type = TypeName(header_.e_type);
    if (header_.e_phnum != 0 && header_.e_phentsize != sizeof(Segment)) {
      return Damaged("program headers have {} bytes, expected {}",
                     header_.e_phentsize, sizeof(Segment));
    }
    return absl::OkStatus();
  }

  // Two dynamic segments would leave open which of them counts.
  absl::Status ReadSegments() {
    const uint64_t table_size = uint64_t{header_.e_phnum} * sizeof(Segment);
    NODEWISE_ASSIGN_OR_RETURN(
        const Bytes table,
        Part("program header table", header_.e_phoff, table_size));
    for (uint32_t i = 0; i < header_.e_phnum; ++i) {
      const Segment segment = Item<Segment>(table, i);
      if (segment.p_type == PT_LOAD) {
        NODEWISE_RETURN_IF_ERROR(AddSegment(segment, i));
      } else if (segment.p_type == PT_DYNAMIC) {
        if (dynamic_segment_.has_value()) {
          return Damaged("has two dynamic segments, expected one at most");
        }
        dynamic_segment_ = segment;
      } else if (segment.p_type == PT_GNU_RELRO) {
        file_.relro_address = segment.p_vaddr;
        file_.relro_size = segment.p_memsz;
      } else if (segment.p_type == PT_NOTE && file_.build_id.empty()) {
        FindBuildId(segment);
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddSegment(const Segment& segment, uint32_t index) {
    const std::string name = fmt::format("segment {}", index);
    NODEWISE_RETURN_IF_ERROR(
        Part(name, segment.p_offset, segment.p_filesz).status());
    if (segment.p_memsz < segment.p_filesz) {
      return Damaged("{} has {} bytes in the file, but {} in memory", name,
                     segment.p_filesz, segment.p_memsz);
    }
    if (segment.p_memsz > ~uint64_t{0} - segment.p_vaddr) {
      return Damaged("{} ends after the last address", name);
    }
    // The format wants them sorted, the loader of glibc relies on it, and
    // BytesAt searches by it.
    if (segment.p_vaddr < next_address_) {
      return Damaged(
          "{} begins at address {}, but the one before it ends at {}", name,
          AddressText(segment.p_vaddr), AddressText(next_address_));
    }
    next_address_ = uint64_t{segment.p_vaddr} + segment.p_memsz;
    file_.segments.push_back({.index = index,
                              .address = segment.p_vaddr,
                              .offset = segment.p_offset,
                              .file_size = segment.p_filesz,
                              .memory_size = segment.p_memsz,
                              .is_writable = (segment.p_flags & PF_W) != 0});
    return absl::OkStatus();
  }

  // Notes are optional: a damaged one is skipped. All note segments together
  // may be no longer than the file, lest thousands of them cover the same
  // bytes.
  void FindBuildId(const Segment& segment) {
    if (!Fits(file_.bytes, segment.p_offset, segment.p_filesz)) return;
    if (segment.p_filesz > notes_budget_) return;
    notes_budget_ -= segment.p_filesz;
    const Bytes notes = file_.bytes.subspan(segment.p_offset, segment.p_filesz);
    const uint64_t align = segment.p_align == 8 ? 8 : 4;
    uint64_t at = 0;
    while (Fits(notes, at, sizeof(Elf32_Nhdr))) {
      // Notes have the same header in both widths.
      const auto note = Item<Elf32_Nhdr>(notes.subspan(at), 0);
      const uint64_t name = at + sizeof(note);
      const uint64_t value = RoundUp(name + note.n_namesz, align);
      if (!Fits(notes, value, note.n_descsz)) return;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(notes.data() + name, "GNU", 4) == 0) {
        const auto* id = reinterpret_cast<const char*>(notes.data() + value);
        file_.build_id = absl::BytesToHexString({id, note.n_descsz});
        return;
      }
      at = RoundUp(value + note.n_descsz, align);
    }
  }

  // The values are at most as large as a file, so the sum does not wrap around.
  static uint64_t RoundUp(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
  }

  // Finds the section by its address, as the loader does, not by its offset.
  absl::Status ReadDynamicSection() {
    NODEWISE_ASSIGN_OR_RETURN(const Bytes bytes,
                              BytesAt(file_, dynamic_segment_->p_vaddr));
    const size_t count =
        std::min<uint64_t>(bytes.size(), dynamic_segment_->p_filesz) /
        sizeof(Dynamic);
    for (size_t i = 0; i < count; ++i) {
      const Dynamic entry = Item<Dynamic>(bytes, i);
      if (entry.d_tag == DT_NULL) return absl::OkStatus();
      dynamic_.Add(entry.d_tag, entry.d_un.d_val);
    }
    // The loader would read on.
    return Damaged("dynamic section of {} entries has no end mark", count);
  }

  // A library without names has no table, and an empty one refuses every
  // offset.
  absl::StatusOr<StringTable> FindStrings() const {
    if (!dynamic_.strings.has_value()) return StringTable({}, file_.where);
    NODEWISE_ASSIGN_OR_RETURN(const Bytes bytes,
                              BytesAt(file_, *dynamic_.strings));
    if (!dynamic_.strings_size.has_value()) {
      return Damaged("dynamic section has a string table, but not its size");
    }
    if (*dynamic_.strings_size > bytes.size()) {
      return Damaged(
          "string table has {} bytes, but its segment has only {} for it",
          *dynamic_.strings_size, bytes.size());
    }
    return StringTable(bytes.subspan(0, *dynamic_.strings_size), file_.where);
  }

  // Names are read in the order in which the loader would look for the
  // libraries.
  absl::Status ReadLibraryNames(StringTable& strings) {
    if (dynamic_.soname.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(
          file_.soname, strings.At(*dynamic_.soname, "shared library", 0));
    }
    file_.needed.reserve(dynamic_.needed.size());
    for (size_t i = 0; i < dynamic_.needed.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          file_.needed.emplace_back(),
          strings.At(dynamic_.needed[i], "needed library", i));
    }
    return absl::OkStatus();
  }

  // The count is checked against the segment before any memory is taken for it.
  absl::Status ReadSymbols(StringTable& strings) {
    if (!dynamic_.symbols.has_value()) return absl::OkStatus();
    if (dynamic_.symbol_size.value_or(sizeof(Symbol)) != sizeof(Symbol)) {
      return Damaged("symbols have {} bytes, expected {}",
                     *dynamic_.symbol_size, sizeof(Symbol));
    }
    NODEWISE_ASSIGN_OR_RETURN(const Bytes table,
                              BytesAt(file_, *dynamic_.symbols));
    NODEWISE_ASSIGN_OR_RETURN(const uint64_t count, CountSymbols());
    if (count > table.size() / sizeof(Symbol)) {
      return Damaged("has {} symbols, but their segment has room for only {}",
                     count, table.size() / sizeof(Symbol));
    }
    if (count <= 1) return absl::OkStatus();  // Symbol 0 means "none".
    file_.symbols.reserve(count - 1);
    for (size_t i = 1; i < count; ++i) {
      const Symbol symbol = Item<Symbol>(table, i);
      NODEWISE_ASSIGN_OR_RETURN(const std::string_view name,
                                strings.At(symbol.st_name, "symbol", i));
      file_.symbols.push_back(Convert(symbol, name));
    }
    return absl::OkStatus();
  }

  static ElfSymbol Convert(const Symbol& symbol, std::string_view name) {
    // These two macros do the same in both widths.
    const int binding = ELF64_ST_BIND(symbol.st_info);
    return {.name = name,
            .value = symbol.st_value,
            .size = symbol.st_size,
            .kind = KindOf(ELF64_ST_TYPE(symbol.st_info)),
            .defined = symbol.st_shndx != SHN_UNDEF,
            .weak = binding == STB_WEAK,
            .local = binding == STB_LOCAL};
  }

  // Common symbols are data, and an indirect function is one to its callers.
  static ElfSymbol::Kind KindOf(int type) {
    using Kind = ElfSymbol::Kind;
    if (type == STT_NOTYPE) return Kind::kNone;
    if (type == STT_OBJECT || type == STT_COMMON) return Kind::kData;
    if (type == STT_FUNC || type == STT_GNU_IFUNC) return Kind::kFunction;
    return Kind::kOther;
  }

  // The dynamic section gives the place of the symbols, but not their number;
  // the hash tables, which are all that the loader needs, do.
  absl::StatusOr<uint64_t> CountSymbols() const {
    if (dynamic_.hash.has_value()) return CountByHash(*dynamic_.hash);
    uint64_t count = 0;
    if (dynamic_.gnu_hash.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(count, CountByGnuHash(*dynamic_.gnu_hash));
    }
    if (count == 0) count = CountBySections();
    if (count == 0 && !dynamic_.gnu_hash.has_value()) {
      return Damaged(
          "has symbols, but no hash table or sections to count them");
    }
    return count;
  }

  // The reader's messages name the byte in the file, not in the table.
  absl::StatusOr<ByteReader> ReaderAt(uint64_t address,
                                      const char* what) const {
    NODEWISE_ASSIGN_OR_RETURN(const Bytes bytes, BytesAt(file_, address));
    const uint64_t base = bytes.data() - file_.bytes.data();
    return ByteReader(bytes, fmt::format("{}: {}", file_.where, what), base);
  }

  absl::StatusOr<uint64_t> CountByHash(uint64_t address) const {
    NODEWISE_ASSIGN_OR_RETURN(ByteReader reader,
                              ReaderAt(address, "hash table"));
    // The number of buckets, then the number of chains, one for each symbol.
    NODEWISE_ASSIGN_OR_RETURN(const auto counts,
                              (reader.Read<std::array<uint32_t, 2>>("header")));
    return counts[1];
  }

  // Symbols with the same bucket are adjacent, so the last symbol is the end of
  // the chain that begins last. Returns 0 if no symbol is in the table: then
  // the number of the others, which are never looked up here, is unknown.
  absl::StatusOr<uint64_t> CountByGnuHash(uint64_t address) const {
    NODEWISE_ASSIGN_OR_RETURN(ByteReader reader,
                              ReaderAt(address, "GNU hash table"));
    NODEWISE_ASSIGN_OR_RETURN(const auto header,
                              reader.Read<GnuHashHeader>("header"));
    const uint64_t first = header.first_symbol;
    const uint64_t filter_size = uint64_t{header.num_filter_words} * (bits / 8);
    NODEWISE_RETURN_IF_ERROR(reader.Bytes("filter", filter_size).status());
    NODEWISE_ASSIGN_OR_RETURN(
        const Bytes buckets,
        reader.Bytes("buckets", header.num_buckets * sizeof(uint32_t)));
    uint64_t last = 0;
    for (size_t i = 0; i < header.num_buckets; ++i) {
      last = std::max<uint64_t>(last, Item<uint32_t>(buckets, i));
    }
    if (last == 0) return 0;
    if (last < first) {
      return Damaged("GNU hash table begins with symbol {}, but has symbol {}",
                     first, last);
    }
    NODEWISE_RETURN_IF_ERROR(
        reader.Bytes("chains", (last - first) * sizeof(uint32_t)).status());
    while (true) {
      NODEWISE_ASSIGN_OR_RETURN(const uint32_t hash,
                                reader.Read<uint32_t>("last chain"));
      ++last;
      if ((hash & 1) != 0) return last;
    }
  }

  // Returns 0 if there are no section headers or they do not tell. The loader
  // never reads section headers; many tools strip them.
  uint64_t CountBySections() const {
    const uint64_t table_size = uint64_t{header_.e_shnum} * sizeof(Section);
    if (header_.e_shentsize != sizeof(Section)) return 0;
    if (!Fits(file_.bytes, header_.e_shoff, table_size)) return 0;
    const Bytes table = file_.bytes.subspan(header_.e_shoff, table_size);
    for (size_t i = 0; i < header_.e_shnum; ++i) {
      const Section section = Item<Section>(table, i);
      if (section.sh_type == SHT_DYNSYM &&
          section.sh_addr == *dynamic_.symbols) {
        return section.sh_size / sizeof(Symbol);
      }
    }
    return 0;
  }

  ElfFile file_;
  Header header_ = {};
  uint64_t next_address_ = 0;
  uint64_t notes_budget_;
  std::optional<Segment> dynamic_segment_;
  DynamicSection dynamic_;
};

bool Overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b ? b - a < a_size : a - b < b_size;
}

}  // namespace

absl::StatusOr<ElfFile> ParseElf(Bytes bytes, std::string where) {
  NODEWISE_RETURN_IF_ERROR(CheckIdent(bytes, where));
  if (bytes[EI_CLASS] == ELFCLASS32) {
    return Parser<32, Elf32_Ehdr, Elf32_Phdr, Elf32_Shdr, Elf32_Dyn, Elf32_Sym>(
               bytes, std::move(where))
        .Parse();
  }
  return Parser<64, Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr, Elf64_Dyn, Elf64_Sym>(
             bytes, std::move(where))
      .Parse();
}

// A segment may be larger in memory than in the file; the rest is zeros that
// the file does not have.
absl::StatusOr<Bytes> BytesAt(const ElfFile& file, uint64_t address) {
  const auto after = std::ranges::upper_bound(file.segments, address, {},
                                              &ElfSegment::address);
  if (after != file.segments.begin()) {
    const ElfSegment& segment = *std::prev(after);
    const uint64_t skip = address - segment.address;
    if (skip < segment.file_size) {
      return file.bytes.subspan(segment.offset + skip,
                                segment.file_size - skip);
    }
  }
  return DataLoss("{}: address {} is in no segment's part of the file",
                  file.where, AddressText(address));
}

const ElfSymbol* FindSymbol(const ElfFile& file, std::string_view name) {
  for (const ElfSymbol& symbol : file.symbols) {
    if (symbol.IsExported() && symbol.name == name) return &symbol;
  }
  return nullptr;
}

std::vector<std::string> FunctionNames(const ElfFile& file) {
  std::vector<std::string> names;
  for (const ElfSymbol& symbol : file.symbols) {
    if (symbol.IsFunction()) names.emplace_back(symbol.name);
  }
  return names;
}

// The checks go from what a user can most easily set right to what only shows
// that the file is damaged.
absl::Status CheckLoadable(const ElfFile& file) {
  if (file.type != kSharedLibrary) {
    return InvalidArgument(
        "{}: is an ELF file of type \"{}\", expected a shared library (link it "
        "with -shared)",
        file.where, file.type);
  }
  const std::string here = MachineName(kThisMachine);
  if (file.machine != here) {
    return Unimplemented("{}: is built for {}, this is {}", file.where,
                         file.machine, here);
  }
  if (file.bits != kBitsHere) {
    return Unimplemented(
        "{}: is built for {} bits, this is a program of {} bits", file.where,
        file.bits, kBitsHere);
  }
  if (file.has_dynamic_section) return absl::OkStatus();
  return DataLoss(
      "{}: has no dynamic section, expected that of a shared library",
      file.where);
}

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
  return std::ranges::any_of(file.segments, [&](const ElfSegment& segment) {
    const uint64_t skip = symbol.value - segment.address;
    return segment.is_writable && symbol.value >= segment.address &&
           skip < segment.memory_size && size <= segment.memory_size - skip;
  });
}

}  // namespace nodewise

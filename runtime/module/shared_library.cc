#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "nodewise/func/c_api.h"
#include "nodewise/module/library_floats.h"
#include "nodewise/support/file.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/run_mark.h"
#include "nodewise/support/status.h"
#include "runtime/module/elf.h"
#include "runtime/module/library_abi.h"
#include "runtime/module/library_module.h"

namespace nodewise {
namespace {

// A process that loads and releases libraries for ever keeps no more. The list
// is for the findings of one process, which show each library once.
constexpr size_t kMostLibraries = 1000;

struct Table {
  std::mutex mutex;
  std::vector<LibraryFloats> libraries;  // mutex
};

Table& LibraryTable() {
  static auto* const table = new Table;
  return *table;
}

// Tells one content of a path from another. A compiler that writes a library
// anew keeps its path. The loader would go on using the old content, which
// nothing else shows.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  int64_t modified_ns = 0;
  int64_t size = 0;

  bool operator==(const FileIdentity&) const = default;
};

FileIdentity IdentityOf(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino,
          status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec,
          status.st_size};
}

// The facts that are read from the file before it is loaded. Reading them first
// keeps the constructors of a file that cannot be used from running.
struct LibraryFacts {
  std::string path;
  FileIdentity identity;
  LibraryAbi abi = LibraryAbi::kPackedC;
  std::vector<std::string> functions;  // Symbols, sorted.
  std::vector<std::string> kernels;    // The names in graphs.
  std::vector<std::string> wanted;     // TVM functions from elsewhere.
  bool makes_objects = false;          // It is C++ on TVM's headers.
  std::map<std::string, size_t, std::less<>> variables;  // Bytes from each on.
};

class SharedLibrary;

// The loader would look for a name without a slash in the system's folders.
std::string LoaderPath(const std::string& path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

// All open libraries by the handle that dlopen gave for them. Never destroyed,
// since a host may release its last library while the process ends.
struct OpenLibraries {
  // Held while a library is opened, so that no thread gets a library whose
  // pointers are still empty, or a second object for one file.
  std::mutex opening;
  std::mutex mutex;
  std::map<void*, SharedLibrary*> by_handle;  // mutex

  static OpenLibraries& Get() {
    static auto* const table = new OpenLibraries;
    return *table;
  }
};

class SharedLibrary final : public Symbols {
 public:
  SharedLibrary(void* handle, LibraryFacts facts)
      : handle_(handle), facts_(std::move(facts)) {}

  ~SharedLibrary() override {
    {
      OpenLibraries& open = OpenLibraries::Get();
      const std::lock_guard lock(open.mutex);
      // Another object may have taken the place of one that was on its way out.
      const auto place = open.by_handle.find(handle_);
      if (place != open.by_handle.end() && place->second == this) {
        open.by_handle.erase(place);
      }
    }
    const CandidateFloatEnvironment floats;
    dlclose(handle_);
    // Another holder may keep the code loaded, and its caches with it.
    void* resident =
        dlopen(LoaderPath(facts_.path).c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (resident == nullptr) return;
    dlclose(resident);
    context().LeakFunctions();
  }

  LibraryAbi abi() const override { return facts_.abi; }
  void* Function(std::string_view name) const override {
    const std::string symbol = SymbolOf(facts_.abi, name);
    // dlsym would also find the functions of libm.
    if (!std::ranges::binary_search(facts_.functions, symbol)) return nullptr;
    return dlsym(handle_, symbol.c_str());
  }
  void* Variable(std::string_view name) const override {
    if (!facts_.variables.contains(name)) return nullptr;
    return dlsym(handle_, std::string(name).c_str());
  }
  std::vector<std::string> FunctionNames() const override {
    return facts_.kernels;
  }
  absl::Span<const uint8_t> BytesFrom(std::string_view name) const override {
    const auto place = facts_.variables.find(name);
    if (place == facts_.variables.end()) return {};
    return {static_cast<const uint8_t*>(Variable(name)), place->second};
  }
  const std::string& where() const override { return facts_.path; }
  const FileIdentity& identity() const { return facts_.identity; }

 private:
  void* handle_;
  LibraryFacts facts_;
};

// Libraries of TVM's C target call TVMBackendAllocWorkspace and its kin as
// plain symbols, and every library of TVM 0.24 and later raises its errors that
// way. If we were loaded privately (by Python's ctypes, say), those symbols
// would not be found: this makes our symbols global. Done once: a library that
// is global stays so.
void MakeOurSymbolsGlobal() {
  static const bool done = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&TVMBackendAllocWorkspace), &info) ==
        0) {
      return false;
    }
    // Never closed: the promotion must last.
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL) !=
           nullptr;
  }();
  (void)done;
}

// The runtimes of GCC, LLVM and Intel.
bool IsOpenMp(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libgomp") || name.starts_with("libomp") ||
         name.starts_with("libiomp");
}

// OpenMP's threads outlive the loop that they were made for and wait for the
// next one in the OpenMP library's own code. That code must not be unmapped
// with the last library that uses it, directly or indirectly. Opening it again
// with RTLD_NODELETE does that, and closing it afterwards gives the extra count
// back.
void KeepOpenMpLoaded() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        if (IsOpenMp(info->dlpi_name)) {
          static_cast<std::vector<std::string>*>(found)->emplace_back(
              info->dlpi_name);
        }
        return 0;
      },
      &paths);
  for (const std::string& path : paths) {
    void* const handle =
        dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle != nullptr) dlclose(handle);
  }
}

// The symbols that the library needs of its runtime must be there when it is
// loaded: a symbol found missing at the first call would end the process.
absl::Status CheckWanted(const LibraryFacts& facts) {
  std::vector<std::string> missing = facts.wanted;
  std::erase_if(missing, [](const std::string& name) {
    return dlsym(RTLD_DEFAULT, name.c_str()) != nullptr;
  });
  return RefuseUnknown(facts.path, missing);
}

// Returns the wanted symbols that none of its own libraries can be expected to
// have. A library that is linked against TVM's own runtime has these functions
// from there.
std::vector<std::string> SymbolsOfRuntime(const ElfFile& elf) {
  const bool brings_tvm = std::ranges::any_of(elf.needed, [](auto name) {
    return name.find("tvm") != std::string_view::npos;
  });
  std::vector<std::string> wanted;
  if (brings_tvm) return wanted;
  for (const ElfSymbol& symbol : elf.symbols) {
    if (!symbol.defined && !symbol.weak && symbol.name.starts_with("TVM")) {
      wanted.emplace_back(symbol.name);
    }
  }
  return wanted;
}

absl::StatusOr<LibraryFacts> ReadFacts(const std::string& path) {
  LibraryFacts facts;
  facts.path = path;
  // Before the file is opened: see OpenSharedLibrary().
  facts.identity = IdentityOf(path);
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  NODEWISE_ASSIGN_OR_RETURN(const ElfFile elf, ParseElf(file.bytes(), path));
  NODEWISE_RETURN_IF_ERROR(CheckLoadable(elf));
  NODEWISE_RETURN_IF_ERROR(CheckKind(elf));
  facts.abi = AbiOf(elf);
  facts.functions = FunctionNames(elf);
  std::ranges::sort(facts.functions);
  facts.kernels = KernelNames(elf, facts.abi);
  facts.wanted = SymbolsOfRuntime(elf);
  for (const ElfSymbol& symbol : elf.symbols) {
    facts.makes_objects |= symbol.name.starts_with("_ZN3tvm7runtime") ||
                           symbol.name.starts_with("_ZNK3tvm7runtime");
    if (!symbol.IsVariable()) continue;
    // Variables that start as zeros have no bytes in the file.
    const auto bytes = BytesAt(elf, symbol.value);
    facts.variables.emplace(symbol.name, bytes.ok() ? bytes->size() : 0);
  }
  return facts;
}

absl::StatusOr<Ref<Symbols>> AlreadyOpen(void* handle,
                                         const LibraryFacts& facts) {
  OpenLibraries& open = OpenLibraries::Get();
  const std::lock_guard lock(open.mutex);
  const auto place = open.by_handle.find(handle);
  if (place == open.by_handle.end()) return Ref<Symbols>();
  SharedLibrary* const known = place->second;
  if (!known->TryRetain()) return Ref<Symbols>();
  auto library = Ref<SharedLibrary>::Adopt(known);
  if (library->identity() != facts.identity) {
    return FailedPrecondition(
        "{}: the file was replaced while its old content is loaded, and the "
        "system would go on using the old one (release it first, or give the "
        "new file another name)",
        facts.path);
  }
  return Ref<Symbols>(std::move(library));
}

// Constructors run here, such as the one that -ffast-math links in. They run as
// compiled code does, in the environment of the candidate, and what they change
// stays for its functions.
void* LoadCheckingFloats(const std::string& path, int flags) {
  const FloatEnvironment before = CandidateFloats();
  void* handle = nullptr;
  {
    const CandidateFloatEnvironment floats;
    handle = dlopen(LoaderPath(path).c_str(), flags);
  }
  const FloatEnvironment after = CandidateFloats();
  if (after == before) return handle;
  // In a host the threads of the pool keep their own environment, as TVM's do.
  if (HasDefaultFloats()) CandidateFloatsChanged();
  NoteLibraryFloats(path, {before, after});
  return handle;
}

}  // namespace

void NoteLibraryFloats(const std::string& path, const FloatChange& change) {
  Table& table = LibraryTable();
  const std::lock_guard lock(table.mutex);
  if (table.libraries.size() == kMostLibraries) return;
  table.libraries.push_back({path, change});
}

std::vector<LibraryFloats> LibrariesThatChangedFloats() {
  Table& table = LibraryTable();
  const std::lock_guard lock(table.mutex);
  return table.libraries;
}

absl::StatusOr<Ref<Symbols>> OpenSharedLibrary(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(LibraryFacts facts, ReadFacts(path));
  MakeOurSymbolsGlobal();
  NODEWISE_RETURN_IF_ERROR(CheckWanted(facts));
  OpenLibraries& open = OpenLibraries::Get();
  const std::lock_guard opening(open.opening);
  int flags = RTLD_LAZY | RTLD_LOCAL;
  if (facts.makes_objects) {
    // The objects that the library makes may outlive its last module, and its
    // code deletes them.
    flags |= RTLD_NODELETE;
    SetModuleWrapper(&WrapTvmModule);
  }
  RunMark::Current()->BeginLoading(path);
  void* const handle = LoadCheckingFloats(path, flags);
  RunMark::Current()->EndLoading();
  if (handle == nullptr) {
    return InvalidArgument("{}: cannot be loaded: {}", path, dlerror());
  }
  KeepOpenMpLoaded();
  auto known = AlreadyOpen(handle, facts);
  // The file must be the same from before it was read until it was loaded, so
  // that what was read belongs to the loaded code.
  if (known.ok() && IdentityOf(path) != facts.identity) {
    known = FailedPrecondition(
        "{}: the file was replaced while it was being loaded (load it again)",
        path);
  }
  if (!known.ok() || *known) {
    dlclose(handle);
    return known;
  }
  // The names are copied first, since the facts move into the library.
  std::vector<std::string> variables;
  for (const auto& [name, bytes] : facts.variables) variables.push_back(name);
  auto library = MakeRef<SharedLibrary>(handle, std::move(facts));
  {
    const std::lock_guard lock(open.mutex);
    open.by_handle[handle] = library.get();
  }
  NODEWISE_RETURN_IF_ERROR(PatchContext(*library, variables));
  return Ref<Symbols>(std::move(library));
}

}  // namespace nodewise

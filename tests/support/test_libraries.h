#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/func/packed_func.h"
#include "nodewise/module/module.h"
#include "nodewise/support/check.h"
#include "nodewise/support/file.h"
#include "tests/support/tensors.h"

namespace nodewise {

// The path of a library built by tests/data/libraries/libraries.cmake.
inline std::string LibraryPath(const std::string& name) {
  return std::string(NODEWISE_TEST_LIBRARIES) + "/" + name + ".so";
}
inline std::string BlobPath(const std::string& name) {
  return std::string(NODEWISE_TEST_LIBRARIES) + "/blobs/" + name + ".bin";
}

// A file's content; ends the test if it cannot be read.
inline std::string FileText(const std::string& path) {
  return std::string(MappedFile::Open(path).value().text());
}
// The graph in the test libraries: x + p0, four floats each.
inline std::string AddGraphJson() {
  return FileText(NODEWISE_SOURCE_DIR "/tests/data/libraries/add_graph.json");
}

// A copy of a test library under a name of its own; removed at the end.
class LibraryCopy {
 public:
  explicit LibraryCopy(const std::string& of) {
    static int count = 0;
    path_ = testing::TempDir() + "nodewise_" + std::to_string(getpid()) + "_" +
            std::to_string(++count) + ".so";
    std::filesystem::copy_file(LibraryPath(of), path_);
  }
  ~LibraryCopy() { std::filesystem::remove(path_); }
  // Puts another library in its place, as a compiler's new output would be.
  void ReplaceBy(const std::string& other) {
    std::filesystem::copy_file(LibraryPath(other), path_ + ".new");
    std::filesystem::rename(path_ + ".new", path_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The root module of such a library; ends the test if it cannot be loaded.
inline Ref<Module> LoadTestLibrary(const std::string& name) {
  return LoadModule(LibraryPath(name)).value();
}

// A function of a module or its imports; ends the test if there is none.
inline PackedFunc FunctionOf(const Ref<Module>& module, std::string_view name) {
  PackedFunc function = module->FindFunction(name).value();
  NODEWISE_CHECK(function);
  return function;
}

// The int that a call returned; records a failure if it did not.
inline int64_t IntOf(const absl::StatusOr<Value>& result) {
  if (!result.ok() || result->Get<int64_t>() == nullptr) {
    ADD_FAILURE() << "no int: " << result.status();
    return -1;
  }
  return *result->Get<int64_t>();
}

// The module that a call returned; ends the test if it did not.
inline Ref<Module> ModuleOf(const absl::StatusOr<Value>& result) {
  return result.value().View().AsObject<Module>("module").value();
}

// The function of the libraries with an addition.
inline constexpr char kAdd[] = "tvmgen_default_fused_add";

// x + {10, 20, 30, 40} with an addition that takes and gives tensors.
inline std::vector<float> Add(const PackedFunc& add,
                              const std::vector<float>& x) {
  const NDArray sum = Floats({0, 0, 0, 0});
  const auto result = add.Call(Floats(x), Floats({10, 20, 30, 40}), sum);
  EXPECT_TRUE(result.ok()) << result.status();
  return ValuesOf(sum);
}

}  // namespace nodewise

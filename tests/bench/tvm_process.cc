#include "tests/bench/tvm_process.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_format.h"

namespace nodewise {

std::unique_ptr<TvmProcess> TvmProcess::Start(const std::string& name) {
  const std::string root = NODEWISE_SOURCE_DIR;
  const std::string venv = root + "/build/tvm_venv";
  if (!std::filesystem::exists(venv + "/is_complete")) {
    std::printf("%s: skipped, TVM is not installed in build/tvm_venv\n",
                name.c_str());
    return nullptr;
  }
  return std::unique_ptr<TvmProcess>(new TvmProcess(
      {venv + "/bin/python", root + "/tests/bench/tvm_process.py"}));
}

std::string TvmProcess::Chain(int operators) {
  return peer_.AskText(absl::StrFormat("chain\t%d", operators));
}

double TvmProcess::Run(const std::string& folder, int runs) {
  return peer_.Ask(absl::StrFormat("run\t%s\t%d", folder, runs));
}

double TvmProcess::RunWithCopies(const std::string& folder, int runs) {
  return peer_.Ask(absl::StrFormat("copy\t%s\t%d", folder, runs));
}

}  // namespace nodewise

#include "tests/bench/tvm_process.h"

#include <cstdio>
#include <filesystem>

#include "fmt/format.h"

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
  return peer_.AskText(fmt::format("chain\t{}", operators));
}

double TvmProcess::Run(const std::string& folder, int runs) {
  return peer_.Ask(fmt::format("run\t{}\t{}", folder, runs));
}

double TvmProcess::RunWithCopies(const std::string& folder, int runs) {
  return peer_.Ask(fmt::format("copy\t{}\t{}", folder, runs));
}

}  // namespace nodewise

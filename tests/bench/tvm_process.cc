#include "tests/bench/tvm_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

double NumberOf(const std::string& text) {
  double number = 0;
  NODEWISE_CHECK(absl::SimpleAtod(text, &number));
  return number;
}

}  // namespace

std::unique_ptr<TvmProcess> TvmProcess::Start(const std::string& name) {
  const std::string root = NODEWISE_SOURCE_DIR;
  const std::string venv = root + "/build/tvm_venv";
  if (!std::filesystem::exists(venv + "/is_complete")) {
    std::printf("%s: skipped, TVM is not installed in build/tvm_venv\n",
                name.c_str());
    return nullptr;
  }
  std::array<int, 2> to;
  std::array<int, 2> from;
  NODEWISE_CHECK(pipe(to.data()) == 0 && pipe(from.data()) == 0);
  const int child = fork();
  NODEWISE_CHECK(child >= 0);
  if (child == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    close(to[1]);
    close(from[0]);
    const std::string python = venv + "/bin/python";
    const std::string script = root + "/tests/bench/tvm_process.py";
    execl(python.c_str(), python.c_str(), script.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  return std::unique_ptr<TvmProcess>(
      new TvmProcess(child, fdopen(to[1], "w"), fdopen(from[0], "r")));
}

TvmProcess::TvmProcess(int child, std::FILE* to, std::FILE* from)
    : child_(child), to_(to), from_(from) {}

// It ends with its input.
TvmProcess::~TvmProcess() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(child_, nullptr, 0);
}

std::string TvmProcess::Ask(const std::string& line) {
  NODEWISE_CHECK(std::fprintf(to_, "%s\n", line.c_str()) > 0);
  NODEWISE_CHECK(std::fflush(to_) == 0);
  std::array<char, 4096> answer;
  NODEWISE_CHECK(std::fgets(answer.data(), answer.size(), from_) != nullptr);
  std::string text = answer.data();
  NODEWISE_CHECK(text.ends_with('\n'));
  text.pop_back();
  return text;
}

std::string TvmProcess::Chain(int operators) {
  return Ask(absl::StrFormat("chain\t%d", operators));
}

double TvmProcess::Run(const std::string& folder, int runs) {
  return NumberOf(Ask(absl::StrFormat("run\t%s\t%d", folder, runs)));
}

double TvmProcess::RunWithCopies(const std::string& folder, int runs) {
  return NumberOf(Ask(absl::StrFormat("copy\t%s\t%d", folder, runs)));
}

}  // namespace nodewise

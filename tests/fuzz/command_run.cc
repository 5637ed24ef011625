#include "tests/fuzz/command_run.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "apps/nodewise/command.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/report/report.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr char kSmallNetwork[] = R"(network "small" {
  opset "" 21;
  input %0 "x": float32[1, 2, 4, 4];
  constant %1 "w" = float32[2, 2, 1, 1] [0.5, -1, 2, 0.25];
  constant %2 "b" = float32[2] [1, -1];
  #0 "conv" = Conv@11(%0, %1, %2) -> %3 "c" barrier %4;
  #1 "relu" = Relu@6(%3) -> %5 "r" barrier %6;
  #2 "add" = Add@7(%5, %0) -> %7 "a" barrier %8;
  #3 "softmax" = Softmax@13(%7) {axis: int 1} -> %9 "y" barrier %10;
  output %9;
}
)";

const CommandRow& RowOf(std::string_view verb) {
  for (const CommandRow& row : Commands()) {
    if (verb == row.name) return row;
  }
  NODEWISE_CHECK(false);
  std::abort();
}

absl::StatusOr<Report> Run(const CommandRow& row,
                           const std::vector<std::string>& arguments) {
  const std::unique_ptr<Command> command = row.make();
  OptionList options;
  command->AddOptions(&options);
  const absl::Status parsed = options.Parse(arguments);
  if (!parsed.ok()) return parsed;
  return command->Run();
}

}  // namespace

const std::string& CommandFolder() {
  static const std::string folder = [] {
    std::error_code error;
    const bool has_memory = fs::is_directory("/dev/shm", error);
    std::string path = has_memory ? "/dev/shm" : fs::temp_directory_path();
    path += "/nodewise_fuzz_XXXXXX";
    NODEWISE_CHECK(mkdtemp(path.data()) != nullptr);
    return path;
  }();
  // What is registered after the string is made runs before it is destroyed.
  static const pid_t maker = getpid();
  [[maybe_unused]] static const int is_registered = std::atexit([] {
    std::error_code ignored;
    if (getpid() == maker) fs::remove_all(CommandFolder(), ignored);
  });
  return folder;
}

std::string CommandFile(const std::string& name,
                        absl::Span<const uint8_t> bytes) {
  const std::string path = CommandFolder() + "/" + name;
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  NODEWISE_CHECK(file.good());
  return path;
}

void RemoveCommandFile(const std::string& name) {
  std::error_code ignored;
  fs::remove_all(CommandFolder() + "/" + name, ignored);
}

int RunVerb(std::string_view verb, const std::vector<std::string>& arguments) {
  absl::StatusOr<Report> outcome = Run(RowOf(verb), arguments);
  if (!outcome.ok()) {
    // The user must see "PLACE: TEXT".
    NODEWISE_CHECK(outcome.status().message().find(": ") != std::string::npos);
    return static_cast<int>(Report::Status::kError);
  }
  if (outcome->status == Report::Status::kError) {
    for (const Finding& error : outcome->errors) {
      NODEWISE_CHECK(LineOf(error).find(": ") != std::string::npos);
    }
  }
  return static_cast<int>(outcome->status);
}

std::string SmallModel() {
  auto data = ParseNetworkText(kSmallNetwork, AllOperators(), "small");
  NODEWISE_CHECK(data.ok());
  auto network = Network::FromData(*std::move(data));
  NODEWISE_CHECK(network.ok());
  auto bytes = ExportOnnx(*network);
  NODEWISE_CHECK(bytes.ok());
  return *std::move(bytes);
}

}  // namespace nodewise

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "nodewise/support/check.h"
#include "tests/fuzz/command_run.h"

namespace {

constexpr std::array kFiles = {
    "_nodewise_graph.json", "_nodewise_nodes.bin", "_tvmdbg_graph_dump.json",
    "output_tensors.params", "_tvmdbg_execution_trace.json"};
constexpr char kDump[] = "dump/_tvmdbg_device_CPU_0/";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The files of a sound dump, in the order of kFiles.
const std::array<std::string, kFiles.size()>& SoundFiles() {
  static const auto files = [] {
    const std::string model =
        nodewise::CommandFile("sound.onnx", BytesOf(nodewise::SmallModel()));
    const std::string root = nodewise::CommandFolder() + "/sound";
    NODEWISE_CHECK(
        nodewise::RunVerb("dump", {model, "--random-inputs", "1", "--dump-root",
                                   root, "--no-table"}) == 0);
    std::array<std::string, kFiles.size()> found;
    for (size_t i = 0; i < kFiles.size(); ++i) {
      found[i] = ReadAll(root + "/_tvmdbg_device_CPU_0/" + kFiles[i]);
    }
    return found;
  }();
  return files;
}

}  // namespace

// A dump with one file, which the first byte names, that has the other bytes:
// played back, or an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto& sound = SoundFiles();
  const size_t changed = data[0] % kFiles.size();
  for (size_t i = 0; i < kFiles.size(); ++i) {
    const absl::Span<const uint8_t> bytes =
        i == changed ? absl::Span<const uint8_t>(data + 1, size - 1)
                     : BytesOf(sound[i]);
    nodewise::CommandFile(std::string(kDump) + kFiles[i], bytes);
  }
  nodewise::RunVerb(
      "locate", {nodewise::CommandFolder() + "/dump", "--method", "replay"});
  return 0;
}

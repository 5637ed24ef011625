#include <cstddef>
#include <cstdint>

#include "nodewise/support/check.h"
#include "tests/fuzz/command_run.h"

namespace {

// An input of the small model: the head of its TensorProto, then 32 zeros.
std::string InputFile() {
  const char head[] = {0x0a, 0x04, 1, 2, 4, 4, 0x10, 1, 0x42, 1, 'x', 0x4a};
  std::string bytes(head, sizeof head);
  bytes += std::string("\x80\x01", 2) + std::string(128, '\0');
  return bytes;
}

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

// A case of AutoTest whose model has these bytes: judged, or an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nodewise::CommandFile("case/model.onnx", {data, size});
  for (const char* name : {"input_0.pb", "output_0.pb"}) {
    nodewise::CommandFile(std::string("case/test_data_set_0/") + name,
                          BytesOf(InputFile()));
  }
  nodewise::RunVerb("autotest",
                    {"--case", nodewise::CommandFolder() + "/case"});
  return 0;
}

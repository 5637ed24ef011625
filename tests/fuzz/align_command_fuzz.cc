#include <cstddef>
#include <cstdint>

#include "nodewise/support/check.h"
#include "tests/fuzz/command_run.h"

// An artefact that is sound.
static const std::string& Net() {
  static const std::string net = [] {
    const std::string model = nodewise::SmallModel();
    const std::string file = nodewise::CommandFile(
        "sound.onnx",
        {reinterpret_cast<const uint8_t*>(model.data()), model.size()});
    std::string folder = nodewise::CommandFolder() + "/net";
    NODEWISE_CHECK(
        nodewise::RunVerb("convert", {file, "--no-fuse", "-o", folder}) == 0);
    return folder;
  }();
  return net;
}

// Any bytes beside an artefact are a model whose tensors are looked for in it,
// or an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string& net = Net();
  const std::string model = nodewise::CommandFile("m.onnx", {data, size});
  nodewise::RunVerb("align", {net, model, "--random-inputs", "1"});
  return 0;
}

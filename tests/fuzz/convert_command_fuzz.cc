#include <cstddef>
#include <cstdint>

#include "tests/fuzz/command_run.h"

// `convert` makes of any bytes an artefact that `verify` calls sound, C code,
// or an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string model = nodewise::CommandFile("m.onnx", {data, size});
  const std::string net = nodewise::CommandFolder() + "/net";
  const std::string code = nodewise::CommandFolder() + "/code";
  nodewise::RemoveCommandFile("net");
  nodewise::RemoveCommandFile("code");
  if (nodewise::RunVerb("convert", {model, "-o", net}) != 0) return 0;
  if (nodewise::RunVerb("verify", {net}) != 0) __builtin_trap();
  nodewise::RunVerb("convert", {model, "--emit", "c", "-o", code});
  return 0;
}

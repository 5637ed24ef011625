// Runs the artefact named on the command line and prints its first output.
#include <cstdio>

#include "nodewise/artefact/artefact.h"

int main(int, char** argv) {
  const auto files = nodewise::FindArtefact(argv[1]);
  if (!files.ok()) return 2;
  auto executor = nodewise::CreateExecutor(*files, {});
  const auto inputs = nodewise::OpenParams(argv[2]);
  if (!executor.ok() || !inputs.ok()) return 2;
  for (const auto& [name, tensor] : inputs->tensors) {
    if (!(*executor)->SetInput(name, *tensor).ok()) return 2;
  }
  if (!(*executor)->Run().ok()) return 2;
  const auto output = (*executor)->GetOutput(0);
  std::printf("%.6f\n", static_cast<double>(output->As<float>()[0]));
}

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace nodewise {

// Whole commands in this process, for fuzz targets: what a verb does with its
// files, from its options to its text. A fault of ours ends the process, as
// does an error without a place.

// The folder of this process, for the files of commands; made when it is first
// asked for, in memory if the system has such a place, and gone with the
// process.
const std::string& CommandFolder();
// Returns the path of a file in it, which is written anew.
std::string CommandFile(const std::string& name,
                        absl::Span<const uint8_t> bytes);
// Removes what has that name in the folder, a file or a folder with all in it.
void RemoveCommandFile(const std::string& name);

// Runs a verb and returns its exit status.
int RunVerb(std::string_view verb, const std::vector<std::string>& arguments);

// A small sound model, the bytes of an .onnx file: a convolution, a branch that
// is added, a softmax. Its input is x, float32 (1, 2, 4, 4).
std::string SmallModel();

}  // namespace nodewise

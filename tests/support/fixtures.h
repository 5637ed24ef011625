#pragma once

#include <string>
#include <vector>

namespace nodewise {

// The folder with artefacts that real compilers made, beside the project; ""
// if it is not there. Tests that need it skip, naming it.
std::string FixturesFolder();

// The artefact folders below a part of it ("tvm-0.14"), sorted.
std::vector<std::string> FixtureFolders(const std::string& part);

// Such a folder as a part of a test's name: "tvm_0_14_mlp_llvm".
std::string FixtureName(const std::string& folder);

}  // namespace nodewise

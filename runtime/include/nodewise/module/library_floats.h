#pragma once

#include <string>
#include <vector>

#include "nodewise/support/float_environment.h"

namespace nodewise {

// A library whose loading changed the floating-point environment of the thread
// that loaded it: one that was linked with -ffast-math, say. The code of
// constructors runs only when a library is loaded first, so this is a fact of
// the process.
struct LibraryFloats {
  std::string path;
  FloatChange change;
};

void NoteLibraryFloats(const std::string& path, const FloatChange& change);
// Returns those noted so far, in their order. Any thread may call.
std::vector<LibraryFloats> LibrariesThatChangedFloats();

}  // namespace nodewise

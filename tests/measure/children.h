#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/measure/case.h"
#include "tests/measure/subject.h"

namespace nodewise {

struct ChildOptions {
  std::string program;  // What is executed anew: the program itself.
  SubjectFolders folders;
  size_t jobs = 1;     // How many children there are at a time.
  double seconds = 0;  // After so many no more are run; 0: all are.
  // A case that takes longer hangs: in general, and where a fault may end or
  // block its process.
  double case_seconds = 300;
  double dangerous_seconds = 20;
};

// Runs cases in children, as many of one subject in each as can be run
// together. A fault that may end, block or corrupt its process has a child of
// its own. Where a child dies, the case that it was at is tried again alone,
// and only if it dies again is that its result. Every result is handed out as
// soon as it is known. Fails if no child can be started.
absl::Status RunInChildren(const std::vector<Case>& cases,
                           const ChildOptions& options,
                           const std::function<void(const Result&)>& take);

// The first argument of such a child; the folders of SubjectFolders and the
// cases follow.
inline constexpr const char* kChildFlag = "--child";

// What a child does: runs the cases that its arguments name and prints a line
// for each. Returns its exit status.
int RunAsChild(int argc, char** argv);

}  // namespace nodewise

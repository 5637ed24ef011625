#pragma once

#include "absl/functional/function_ref.h"

namespace nodewise::onednn {

// Says that OpenMP is about to begin threads in this process. They are lost in
// its children, where OneDnnThreads::Count() is 1 from then on.
void NoteOmpThreads();

// While this lives, OpenMP regions that the calling thread begins have so many
// threads.
class OmpThreads {
 public:
  explicit OmpThreads(int count);
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;
  ~OmpThreads();

 private:
  int before_;
};

// Runs f(index, count) on each of the threads that oneDNN runs on. Those of
// nodewise's own pool would compete with them: they go on spinning for some
// milliseconds after each region.
void OnOmpTeam(int threads, absl::FunctionRef<void(int, int)> f);

}  // namespace nodewise::onednn

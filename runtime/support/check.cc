
#include <cstdio>
#include <cstdlib>

namespace nodewise {

// Allocates nothing and takes no lock but that of stderr: nothing of this
// process can be trusted any more.
void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace nodewise

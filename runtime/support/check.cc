
#include <cstdio>
#include <cstdlib>

namespace nodewise {

// No allocation and no lock: nothing of this process can be trusted any more.
void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace nodewise

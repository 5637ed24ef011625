#include "tests/fuzz/memory_limit.h"

#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "nodewise/support/check.h"

namespace nodewise {
namespace {

constexpr int64_t kTimesInput = 10;
constexpr int64_t kAllowance = int64_t{64} << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> limit_bytes{kNoLimit};

void OnMalloc(const volatile void*, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  const int64_t live = live_bytes.fetch_add(size) + size;
  const int64_t limit = limit_bytes.load(std::memory_order_relaxed);
  if (live <= limit) return;
  limit_bytes = kNoLimit;  // Reporting may allocate.
  std::fprintf(stderr,
               "memory limit: %lld bytes are allocated at once, the last %lld "
               "of them now; expected at most %lld\n",
               static_cast<long long>(live), static_cast<long long>(size),
               static_cast<long long>(limit));
  std::abort();
}

void OnFree(const volatile void* data) {
  // The hook is not given the size, and is called for null too.
  if (data == nullptr) return;
  live_bytes -= static_cast<int64_t>(
      __sanitizer_get_allocated_size(const_cast<const void*>(data)));
}

}  // namespace

MemoryLimit::MemoryLimit(size_t input_bytes) {
  static const bool installed =
      __sanitizer_install_malloc_and_free_hooks(&OnMalloc, &OnFree) > 0;
  NODEWISE_CHECK(installed && limit_bytes == kNoLimit);
  live_bytes = 0;
  limit_bytes = kTimesInput * static_cast<int64_t>(input_bytes) + kAllowance;
}

MemoryLimit::~MemoryLimit() { limit_bytes = kNoLimit; }

}  // namespace nodewise

#pragma once

// How many random cases a test tries, and from which seed.

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace nodewise {

// Returns `all` with `./dev test --full`, else `sample`.
inline int NumCases(int sample, int all) {
  const char* const full = std::getenv("NODEWISE_TEST_FULL");
  return full != nullptr && std::string(full) == "1" ? all : sample;
}

// Returns NODEWISE_SEED, which repeats a case, or a number drawn anew.
inline uint64_t FirstSeed() {
  const char* const given = std::getenv("NODEWISE_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10)
                          : std::random_device()();
}

}  // namespace nodewise

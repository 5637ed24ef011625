#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/check.h"

namespace nodewise {

// A seeded source of numbers that are the same on every platform: xoshiro256**
// (Blackman and Vigna), its state filled by SplitMix64. Not thread-safe; use
// one in each thread.
class RandomSource {
 public:
  // Sources of one seed and different streams are independent. A run that
  // draws each tensor from the stream of its name can get another input
  // without changing the values of the others.
  explicit RandomSource(uint64_t seed, std::string_view stream = {});

  // 64 random bits.
  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  // Uniform in [-1, 1), in steps of 2^-52.
  double Symmetric();
  // Uniform from `least` up to and including `most`. REQUIRES: least <= most <
  // least + 2^32.
  int64_t Between(int64_t least, int64_t most) {
    NODEWISE_CHECK(least <= most);
    const uint64_t count =
        static_cast<uint64_t>(most) - static_cast<uint64_t>(least) + 1;
    NODEWISE_CHECK(count > 0 && count <= uint64_t{1} << 32);
    // One draw for each number, in exchange for a bias of at most 2^-32.
    return least + static_cast<int64_t>((Next() >> 32) * count >> 32);
  }

 private:
  uint64_t state_[4];
};

// Numbers below small limits, four of them from each draw of a source.
class SmallNumbers {
 public:
  explicit SmallNumbers(const RandomSource& source) : source_(source) {}

  // Uniform from 0 up to, but not including, `count`, with a bias of at most
  // count / 2^16. REQUIRES: 0 < count <= 2^8.
  uint32_t Below(uint32_t count) {
    if (left_ == 0) {
      bits_ = source_.Next();
      left_ = 4;
    }
    --left_;
    const auto part = static_cast<uint32_t>(bits_ & 0xFFFF);
    bits_ >>= 16;
    return part * count >> 16;
  }

 private:
  RandomSource source_;
  uint64_t bits_ = 0;
  int left_ = 0;
};

// Makes a tensor in host memory with values that suit most operators: floats
// uniform in [-1, 1), integers from -10 to 11 as far as the type holds them,
// bool 0 or 1. Each value (each part of a complex number, each lane of a vector
// type) takes one draw, so tensors of different float types drawn from equal
// sources hold the same numbers, rounded to the nearest that the type has below
// 1. Fails with kUnimplemented for handles, packed vectors and unusual widths,
// otherwise as NDArray::Empty does.
absl::StatusOr<NDArray> RandomTensor(RandomSource& source,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype);

}  // namespace nodewise

#include "nodewise/ndarray/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "runtime/ndarray/hash_stream.h"

namespace nodewise {
namespace {

std::vector<uint8_t> Counting() {
  std::vector<uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

std::vector<uint8_t> Many() {
  std::vector<uint8_t> bytes(10000);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i * 31 % 251);
  }
  return bytes;
}

std::vector<uint8_t> RandomBytes(size_t size) {
  std::mt19937_64 random(20240611);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

uint64_t HashOf(const std::vector<uint8_t>& bytes) {
  return HashBytes(bytes.data(), bytes.size());
}

// The hashes of docs/formats/hash.md.
TEST(HashBytesTest, IsThatOfTheFormatsPage) {
  EXPECT_EQ(HashBytes(nullptr, 0), 0x2D06800538D394C2);
  EXPECT_EQ(HashOf({0}), 0xC44BDFF4074EECDB);
  EXPECT_EQ(HashOf({'a', 'b', 'c'}), 0x78AF5F94892F3950);
  EXPECT_EQ(HashOf(std::vector<uint8_t>(64)), 0x2FFB6918C12C256E);
  EXPECT_EQ(HashOf(Counting()), 0x9408A4433B952D71);
  EXPECT_EQ(HashOf(Many()), 0xD9D55CC0B13241B1);
}

TEST(HashBytesTest, EveryFlippedBitChangesIt) {
  std::vector<uint8_t> bytes = RandomBytes(300);
  std::set<uint64_t> hashes = {HashOf(bytes)};
  for (uint8_t& byte : bytes) {
    for (int flip = 1; flip < 256; ++flip) {
      byte ^= static_cast<uint8_t>(flip);
      hashes.insert(HashOf(bytes));
      byte ^= static_cast<uint8_t>(flip);
    }
  }
  EXPECT_EQ(hashes.size(), 1 + 300u * 255);
}

// What faulty kernels do: changes that a sum of products would not see.
TEST(HashBytesTest, FlippedSignsAndSwappedWordsDoNotCancel) {
  std::vector<float> values(256, 1.0f);
  const auto hash = [&] { return HashBytes(values.data(), 1024); };
  std::set<uint64_t> hashes = {hash()};
  for (size_t i = 0; i < 256; ++i) {
    for (size_t j = 0; j < i; ++j) {
      values[i] = values[j] = -1.0f;
      hashes.insert(hash());
      values[j] = 2.0f;
      hashes.insert(hash());
      std::swap(values[i], values[j]);
      hashes.insert(hash());
      values[i] = values[j] = 1.0f;
    }
  }
  EXPECT_EQ(hashes.size(), 1 + 3u * 256 * 255 / 2);
}

TEST(HashBytesTest, NumberOfZerosMatters) {
  const std::vector<uint8_t> zeros(1000);
  std::set<uint64_t> hashes;
  for (size_t size = 0; size <= zeros.size(); ++size) {
    hashes.insert(HashBytes(zeros.data(), size));
  }
  EXPECT_EQ(hashes.size(), zeros.size() + 1);
}

TEST(HashStreamTest, PiecesGiveTheHashOfTheWhole) {
  const std::vector<uint8_t> bytes = RandomBytes(5000);
  for (const size_t piece : {1, 63, 64, 255, 256, 257, 1024, 4999, 5000}) {
    HashStream stream;
    for (size_t done = 0; done < bytes.size(); done += piece) {
      stream.Add(bytes.data() + done, std::min(piece, bytes.size() - done));
    }
    EXPECT_EQ(stream.Finish(), HashOf(bytes)) << piece;
  }
}

TEST(HashStreamTest, NothingAddedIsTheHashOfNoBytes) {
  EXPECT_EQ(HashStream().Finish(), HashBytes(nullptr, 0));
}

TEST(CompareHashesTest, HashesOfOneFunctionAreTheSameOrDifferent) {
  for (const HashKind kind : {HashKind::kXxh3, HashKind::kNodewiseOwn}) {
    EXPECT_EQ(CompareHashes({kind, 7}, {kind, 7}), HashMatch::kSame);
    EXPECT_EQ(CompareHashes({kind, 7}, {kind, 8}), HashMatch::kDifferent);
  }
}

TEST(CompareHashesTest, HashesOfTwoFunctionsAreNotComparable) {
  const TensorHash ours{HashKind::kXxh3, 7};
  for (const uint64_t value : {7, 8}) {
    const TensorHash old{HashKind::kNodewiseOwn, value};
    EXPECT_EQ(CompareHashes(ours, old), HashMatch::kNotComparable);
    EXPECT_EQ(CompareHashes(old, ours), HashMatch::kNotComparable);
  }
}

}  // namespace
}  // namespace nodewise

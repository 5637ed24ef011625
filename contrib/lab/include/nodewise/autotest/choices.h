#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "nodewise/random/random.h"

namespace nodewise {

// One decision of a test case: a number from 0 to `most`. 0 is the simplest.
struct Choice {
  uint64_t value = 0;
  uint64_t most = 0;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Choices that belong together, such as all of one input: [begin, end).
struct ChoiceSpan {
  size_t begin = 0;
  size_t end = 0;
};

// The random part of a test case is a sequence of choices. Playing the sequence
// back gives the same case; leaving some choices out, or making some smaller,
// gives a simpler one. So everything drawn from here can be shrunk without code
// of its own for that.
class Choices {
 public:
  // More choices than these have no end; from then on all are 0.
  static constexpr size_t kMost = 1 << 16;

  // Draws.
  explicit Choices(const RandomSource& random) : random_(random) {}
  // Plays back: a number beyond what is allowed at its place becomes the
  // largest that is, and behind the last one all are 0.
  explicit Choices(std::vector<uint64_t> values)
      : random_(0), is_replay_(true), values_(std::move(values)) {}

  // Returns a number from 0 to `most`.
  uint64_t UpTo(uint64_t most);
  // Returns a number of 64 random bits, one choice.
  uint64_t Bits() { return UpTo(UINT64_MAX); }
  // Returns a number from `least`, the simplest, to `most`; without a choice if
  // there is only one.
  int64_t Between(int64_t least, int64_t most) {
    if (most <= least) return least;
    return least +
           static_cast<int64_t>(UpTo(static_cast<uint64_t>(most - least)));
  }
  // Returns true in so many of 100 cases; false is simplest.
  bool Chance(int percent = 50) {
    return UpTo(99) >= static_cast<uint64_t>(100 - percent);
  }
  // Returns one of several; the first is the simplest.
  template <typename Options>
  auto One(const Options& options) {
    return std::begin(options)[UpTo(std::size(options) - 1)];
  }

  // What is chosen while it lives belongs together.
  class Group {
   public:
    explicit Group(Choices* choices);
    ~Group();
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

   private:
    Choices& choices_;
    const size_t begin_;
  };

  absl::Span<const Choice> made() const { return made_; }
  // Inner groups come before outer ones; empty ones are left out.
  absl::Span<const ChoiceSpan> groups() const { return groups_; }
  // Returns whether more was asked for than there may be.
  bool is_exhausted() const { return is_exhausted_; }

 private:
  RandomSource random_;
  bool is_replay_ = false;
  bool is_exhausted_ = false;
  std::vector<uint64_t> values_;
  // Sets of numbers are drawn by the thousand, with few choices each.
  absl::InlinedVector<Choice, 24> made_;
  absl::InlinedVector<ChoiceSpan, 12> groups_;
};

// Returns the numbers alone, to play them back.
std::vector<uint64_t> ValuesOf(absl::Span<const Choice> choices);

}  // namespace nodewise

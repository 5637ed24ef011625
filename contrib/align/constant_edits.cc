#include "contrib/align/constant_edits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "contrib/align/precision.h"
#include "contrib/align/tensor_match.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Numbers = std::vector<double>;

// A double has no larger integers exactly.
constexpr double kLargestInteger = 9e15;
constexpr size_t kFewIntegers = 8;
// To try larger ones takes longer than there is time.
constexpr int64_t kMostNumbers = int64_t{1} << 23;

class ConstantVisit {
 public:
  ConstantVisit(
      const NDArray& constant,
      absl::FunctionRef<bool(const NDArray&, const std::string&)> visit)
      : constant_(constant),
        shape_(constant.shape().begin(), constant.shape().end()),
        numbers_(NumbersOf(constant)),
        visit_(visit) {}

  void Run() const {
    if (numbers_.empty()) return;
    if (!Try(Numbers(numbers_.size()), "taken for zeros")) return;
    if (!Try(Negated(), "with the other sign")) return;
    if (IsInteger(constant_.dtype()) && !TryIntegers()) return;
    if (!TrySide(1, static_cast<int64_t>(numbers_.size()), "by one element",
                 "")) {
      return;
    }
    if (!TryFirstSide()) return;
    (void)TryExchanges();
  }

 private:
  bool Try(const Numbers& numbers, const std::string& what) const {
    if (numbers == numbers_) return true;
    const auto changed = TensorOfNumbers(numbers, shape_, constant_.dtype());
    return !changed.ok() || visit_(*changed, what);
  }

  Numbers Negated() const {
    Numbers numbers = numbers_;
    for (double& number : numbers) number = -number;
    return numbers;
  }

  bool TryIntegers() const {
    for (const double more : {1.0, -1.0}) {
      const char* const what = more > 0 ? "one larger" : "one smaller";
      Numbers numbers = numbers_;
      for (double& number : numbers) number += more;
      if (!Try(numbers, what)) return false;
      if (numbers_.size() > kFewIntegers || numbers_.size() == 1) continue;
      for (size_t i = 0; i < numbers_.size(); ++i) {
        numbers = numbers_;
        numbers[i] += more;
        if (!Try(numbers, fmt::format("with element {} {}", i, what))) {
          return false;
        }
      }
    }
    return true;
  }

  // The elements of a side are `inner` numbers each, `count` of them.
  bool TrySide(int64_t inner, int64_t count, const std::string& by,
               const std::string& along) const {
    if (count < 2) return true;
    return Try(Moved(inner, count, 1),
               fmt::format("moved on {}{}", by, along)) &&
           Try(Moved(inner, count, -1),
               fmt::format("moved back {}{}", by, along)) &&
           Try(Backwards(inner, count), "read backwards" + along);
  }

  // Rows of a matrix, or whole filters: each try takes of what there is for
  // others.
  bool TryFirstSide() const {
    if (shape_.size() < 2) return true;
    const auto count = static_cast<int64_t>(numbers_.size());
    return TrySide(count / shape_[0], shape_[0], "by one", " along side 0");
  }

  // Sides of one length exchanged.
  bool TryExchanges() const {
    std::vector<int64_t> steps(shape_.size(), 1);
    for (size_t i = shape_.size(); i > 1; --i) {
      steps[i - 2] = steps[i - 1] * shape_[i - 1];
    }
    for (size_t i = 0; i < shape_.size(); ++i) {
      for (size_t j = i + 1; j < shape_.size(); ++j) {
        if (shape_[i] != shape_[j] || shape_[i] == 1) continue;
        Layout layout;
        for (size_t k = 0; k < shape_.size(); ++k) {
          const size_t from = k == i ? j : k == j ? i : k;
          layout.loops.push_back({shape_[k], steps[from]});
        }
        Numbers numbers(numbers_.size());
        const std::vector<int64_t> places = PlacesOf(layout);
        for (size_t n = 0; n < numbers.size(); ++n) {
          numbers[static_cast<size_t>(places[n])] = numbers_[n];
        }
        if (!Try(numbers,
                 fmt::format("with sides {} and {} exchanged", i, j))) {
          return false;
        }
      }
    }
    return true;
  }

  template <typename StepOf>
  Numbers Reordered(int64_t inner, int64_t count, const StepOf& from) const {
    Numbers numbers(numbers_.size());
    for (size_t n = 0; n < numbers.size(); ++n) {
      const auto place = static_cast<int64_t>(n);
      const int64_t step = place / inner % count;
      numbers[n] =
          numbers_[static_cast<size_t>(place + (from(step) - step) * inner)];
    }
    return numbers;
  }
  Numbers Moved(int64_t inner, int64_t count, int64_t by) const {
    return Reordered(inner, count, [count, by](int64_t step) {
      return (step - by + count) % count;
    });
  }
  Numbers Backwards(int64_t inner, int64_t count) const {
    return Reordered(inner, count,
                     [count](int64_t step) { return count - 1 - step; });
  }

  const NDArray& constant_;
  const std::vector<int64_t> shape_;
  const Numbers numbers_;
  const absl::FunctionRef<bool(const NDArray&, const std::string&)> visit_;
};

bool HasExactNumbers(const NDArray& constant) {
  const Numbers numbers = NumbersOf(constant);
  return std::all_of(numbers.begin(), numbers.end(), [](double number) {
    return std::fabs(number) < kLargestInteger;
  });
}

}  // namespace

void VisitConstantEdits(
    const NDArray& constant,
    absl::FunctionRef<bool(const NDArray& changed, const std::string& what)>
        visit) {
  const DLDataType dtype = constant.dtype();
  if (CountOf(constant) > kMostNumbers) return;
  if (IsFloat(dtype) || (IsInteger(dtype) && HasExactNumbers(constant))) {
    ConstantVisit(constant, visit).Run();
  }
}

}  // namespace nodewise

// Reports cannot show all of a tensor: a line of one has a summary, which is
// made of the tensor's own numbers in one pass, in any type, without a copy.

#include "nodewise/report/tensor_summary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/float_environment.h"

namespace nodewise {
namespace {

// The shortest digits that read back the same; integers have all of theirs.
template <typename Value>
std::string TextOf(Value value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else {
    // to_chars would keep the sign of a NaN.
    if constexpr (std::is_floating_point_v<Value>) {
      if (std::isnan(value)) return "nan";
    }
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    return std::string(digits, end);
  }
}

// Counts and compares in the type that the elements have, since a double holds
// not all integers of 64 bits. NaN counts for nothing else; infinities are
// numbers for the range and not for the mean.
template <typename Stored>
void Summarise(const uint8_t* data, size_t count, size_t num_first,
               TensorSummary* summary) {
  using Value = decltype(DecodeElement(LoadElement<Stored>(data, 0)));
  bool any = false;
  Value least{};
  Value most{};
  double sum = 0;
  uint64_t num_finite = 0;
  for (size_t i = 0; i < count; ++i) {
    const Value value = DecodeElement(LoadElement<Stored>(data, i));
    if constexpr (std::is_floating_point_v<Value>) {
      if (std::isnan(value)) {
        ++summary->nans;
        continue;
      }
    }
    least = any ? std::min(least, value) : value;
    most = any ? std::max(most, value) : value;
    any = true;
    if constexpr (std::is_floating_point_v<Value>) {
      if (std::isinf(value)) {
        ++summary->infinities;
        continue;
      }
    }
    ++num_finite;
    sum += static_cast<double>(value);
  }
  if (any) summary->min = TextOf(least);
  if (any) summary->max = TextOf(most);
  summary->mean = num_finite == 0 ? std::numeric_limits<double>::quiet_NaN()
                                  : sum / static_cast<double>(num_finite);
  summary->has_numbers = true;
  for (size_t i = 0; i < std::min(count, num_first); ++i) {
    summary->first.push_back(
        TextOf(DecodeElement(LoadElement<Stored>(data, i))));
  }
}

void SummariseRaw(const uint8_t* data, size_t count, size_t element_bytes,
                  size_t num_first, TensorSummary* summary) {
  for (size_t i = 0; i < std::min(count, num_first); ++i) {
    std::string text = "0x";
    // The highest byte comes first, as in written numbers.
    for (size_t b = element_bytes; b > 0; --b) {
      text += fmt::format("{:02x}", data[i * element_bytes + b - 1]);
    }
    summary->first.push_back(text);
  }
}

}  // namespace

TensorSummary SummariseTensor(const DLTensor& tensor, size_t num_first) {
  TensorSummary summary;
  const auto* const data = static_cast<const uint8_t*>(DataOf(tensor));
  const auto elements =
      static_cast<size_t>(NumElements(ShapeOf(tensor)).value_or(0));
  VisitElementType(tensor.dtype, [&](auto element) {
    using E = decltype(element);
    if constexpr (E::kHasNumbers) {
      Summarise<typename E::Stored>(data, elements * tensor.dtype.lanes,
                                    num_first, &summary);
    }
  });
  if (summary.has_numbers) return summary;
  SummariseRaw(data, elements, ElementBytes(tensor.dtype), num_first, &summary);
  return summary;
}

void AddSummary(const TensorSummary& summary, JsonWriter* json) {
  if (!summary.has_numbers) return;
  json->AddScalar("min", summary.min);
  json->AddScalar("max", summary.max);
  AddMembers(json, "mean", summary.mean, "nans", summary.nans, "infinities",
             summary.infinities);
}

// Integers are shown with all their digits, since cutting them would change
// them.
std::string ShortNumber(const std::string& text) {
  if (text == "null") return "-";
  if (text.find_first_of(".e") == std::string::npos) return text;
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && stop == end;
  return is_number ? ShortNumber(value) : text;
}

std::string ShortNumber(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.6g}", value);
}

}  // namespace nodewise

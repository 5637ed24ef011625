// The table of what is known of runtimes: one section a runtime, one line a
// row.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "nodewise/locate/known_deviation.h"
#include "nodewise/support/check.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Kind = KnownDeviation::Kind;

constexpr std::string_view kBuiltIn =
#include "contrib/locate/known_deviations.inc"
    ;

using KindRow = std::pair<Kind, std::string_view>;
constexpr KindRow kKinds[] = {
    {Kind::kApproximation, "approximation"}, {Kind::kRounding, "rounding"},
    {Kind::kShortType, "shorter"},           {Kind::kStep, "step"},
    {Kind::kSaturation, "saturation"},
};

constexpr std::string_view kBlanks = " \t\r";

// Lines may come from an editor that ends them with a carriage return, too.
std::string_view StripBlanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<std::string_view> WordsIn(std::string_view line) {
  std::vector<std::string_view> words;
  for (line = StripBlanks(line); !line.empty(); line = StripBlanks(line)) {
    const size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

// Words of the table have no blanks.
std::string ReplaceChar(std::string_view text, char from, char to) {
  std::string changed(text);
  std::ranges::replace(changed, from, to);
  return changed;
}

// Reads the table line by line. The first thing that is wrong ends it, and is
// named with its line.
struct KnownReader {
  std::string_view left;  // What has not been read of the text.
  const std::string& place;
  size_t line_number = 0;
  std::vector<KnownRuntime> found = {};

  absl::StatusOr<std::vector<KnownRuntime>> Read() {
    while (!left.empty()) {
      ++line_number;
      const size_t end = std::min(left.find('\n'), left.size());
      const std::string_view bare = StripBlanks(left.substr(0, end));
      left.remove_prefix(std::min(end + 1, left.size()));
      if (bare.empty() || bare.front() == '#') continue;
      if (bare.front() == '[') {
        NODEWISE_RETURN_IF_ERROR(ReadHead(bare));
      } else {
        NODEWISE_RETURN_IF_ERROR(ReadRow(bare));
      }
    }
    return std::move(found);
  }

  absl::Status Wrong(std::string_view text, std::string_view expected) const {
    return InvalidArgument("{}:{}: found \"{}\", expected {}", place,
                           line_number, Printable(Shortened(text)), expected);
  }

  // "[onnxruntime 1.32.0, CPUExecutionProvider | avx512_vnni]"
  absl::Status ReadHead(std::string_view line) {
    const size_t bar = line.find('|');
    if (line.back() != ']' || bar == std::string_view::npos) {
      return Wrong(line, "[RUNTIME VERSION | INSTRUCTIONS]");
    }
    // The name between the brackets is kept as it is: it is compared with
    // what adapters call their runtimes.
    KnownRuntime known{
        std::string(StripBlanks(line.substr(1, bar - 1))),
        std::string(StripBlanks(line.substr(bar + 1, line.size() - bar - 2)))};
    if (known.runtime.empty() || known.instructions.empty()) {
      return Wrong(line, "[RUNTIME VERSION | INSTRUCTIONS]");
    }
    found.push_back(std::move(known));
    return absl::OkStatus();
  }

  // "Sigmoid float32 approximation 4.2", "MatMul float32 shorter bfloat16 900"
  absl::Status ReadRow(std::string_view line) {
    if (found.empty()) {
      return Wrong(line, "a runtime first, [RUNTIME VERSION | INSTRUCTIONS]");
    }
    const std::vector<std::string_view> words = WordsIn(line);
    if (words.size() < 3) return Wrong(line, "OPERATOR TYPE CLASS");
    KnownDeviation row;
    row.operation = words[0];
    row.dtype = words[1];
    NODEWISE_ASSIGN_OR_RETURN(row.kind, KindNamed(words[2]));
    // Each class has its own words behind it: the shorter type, and how far the
    // error has been seen to go.
    size_t at = 3;
    if (row.kind == Kind::kShortType) {
      if (at == words.size()) return Wrong(line, "the shorter type behind it");
      row.type = ReplaceChar(words[at++], '_', ' ');
    }
    if (HasTimes(row.kind)) {
      if (at == words.size() || !ReadTimes(words[at++], &row.times)) {
        return Wrong(line, "the largest error behind it, 1 or more");
      }
    }
    if (at != words.size()) return Wrong(words[at], "the end of the line");
    found.back().rows.push_back(std::move(row));
    return absl::OkStatus();
  }

  absl::StatusOr<Kind> KindNamed(std::string_view word) const {
    std::string names;
    for (const auto& [kind, name] : kKinds) {
      if (name == word) return kind;
      names += names.empty() ? "" : ", ";
      names += name;
    }
    return Wrong(word, "one of " + names);
  }

  static bool ReadTimes(std::string_view word, double* times) {
    const char* const end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, *times);
    return read.ec == std::errc() && read.ptr == end && std::isfinite(*times) &&
           *times >= 1;
  }
};

constexpr std::string_view kAny = "any";

// How far an error is beyond a row. Rows that have no largest error explain an
// error of their kind however large it is, and no other; one that makes
// infinities of finite numbers is never an approximation.
double TimesOf(const KnownDeviation& row, double error,
               const std::optional<Cause>& cause) {
  const auto is = [&](Cause::Kind kind) {
    return cause.has_value() && cause->kind == kind;
  };
  const double times = error / row.times;
  switch (row.kind) {
    case Kind::kStep:
      return is(Cause::Kind::kStep) ? 1 : INFINITY;
    case Kind::kSaturation:
      return is(Cause::Kind::kSaturation) ? 1 : INFINITY;
    case Kind::kShortType:
      return is(Cause::Kind::kPrecision) && cause->type == row.type ? times
                                                                    : INFINITY;
    case Kind::kApproximation:
    case Kind::kRounding:
      break;
  }
  return is(Cause::Kind::kInfinity) ? INFINITY : times;
}

// 0 for a type that is not a float.
double HalfUlpOfOne(std::string_view dtype) {
  if (dtype == "float64") return 0x1p-53;
  if (dtype == "float32") return 0x1p-24;
  if (dtype == "float16") return 0x1p-11;
  return dtype == "bfloat16" ? 0x1p-8 : 0;
}

// A runtime calls itself by its name and version, and may add more behind a
// comma, such as its provider.
bool IsCalled(std::string_view runtime, std::string_view name) {
  return runtime.starts_with(name) &&
         (runtime.size() == name.size() || runtime[name.size()] == ',');
}

}  // namespace

std::string_view NameOf(Kind kind) {
  return std::ranges::find(kKinds, kind, &KindRow::first)->second;
}

bool HasTimes(Kind kind) {
  return kind != Kind::kStep && kind != Kind::kSaturation;
}

std::string WordsOf(const KnownDeviation& known) {
  switch (known.kind) {
    case Kind::kApproximation:
      return fmt::format(
          "an approximation, up to {:.3g} times what rounding "
          "may do",
          known.times);
    case Kind::kRounding:
      return fmt::format(
          "rounded at another place, up to {:.3g} times what "
          "rounding may do",
          known.times);
    case Kind::kShortType:
      return fmt::format("computed in {}", known.type);
    case Kind::kStep:
      return "one step off";
    case Kind::kSaturation:
      break;
  }
  return "made of 8-bit products that saturate";
}

absl::StatusOr<std::vector<KnownRuntime>> ParseKnownRuntimes(
    std::string_view text, const std::string& place) {
  return KnownReader{text, place}.Read();
}

std::string TextOf(const KnownRuntime& known) {
  std::string text =
      fmt::format("[{} | {}]\n", known.runtime, known.instructions);
  for (const KnownDeviation& row : known.rows) {
    text += fmt::format("{} {} {}", row.operation, row.dtype, NameOf(row.kind));
    if (!row.type.empty()) text += " " + ReplaceChar(row.type, ' ', '_');
    if (HasTimes(row.kind)) text += fmt::format(" {:.3g}", row.times);
    text += "\n";
  }
  return text;
}

const std::vector<KnownRuntime>& BuiltInKnownRuntimes() {
  // It is a part of the program, so that a fault in it is ours.
  static const std::vector<KnownRuntime> known = [] {
    auto read = ParseKnownRuntimes(kBuiltIn, "known_deviations.txt");
    NODEWISE_CHECK(read.ok());
    return *std::move(read);
  }();
  return known;
}

std::string_view RuntimeVersion(std::string_view runtime) {
  return runtime.substr(0, runtime.find(','));
}

std::string_view KnownOf(const KnownDeviation& row, std::string_view runtime) {
  return row.is_of_any ? "many runtimes" : RuntimeVersion(runtime);
}

std::vector<KnownDeviation> RowsOf(absl::Span<const KnownRuntime> known,
                                   std::string_view runtime) {
  std::vector<KnownDeviation> rows;
  // Sections for all processors and for this one add up.
  std::vector<KnownDeviation> of_any;
  for (const KnownRuntime& each : known) {
    if (each.instructions != InstructionSet() && each.instructions != kAny) {
      continue;
    }
    const bool is_of_any = each.runtime == kAny;
    if (!is_of_any && !IsCalled(runtime, each.runtime)) continue;
    auto& to = is_of_any ? of_any : rows;
    to.insert(to.end(), each.rows.begin(), each.rows.end());
  }
  // Rows that were measured of a runtime itself count alone: it may be better
  // than most.
  if (!rows.empty()) return rows;
  for (KnownDeviation& row : of_any) row.is_of_any = true;
  return of_any;
}

std::string_view InstructionSet() {
// The newest comes first: a processor that has it has those below it, too.
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") != 0) return "avx512_vnni";
  if (__builtin_cpu_supports("avx512f") != 0) return "avx512";
  if (__builtin_cpu_supports("avx2") != 0) return "avx2";
  return "sse2";
#elif defined(__aarch64__)
  return "neon";
#else
  return "unknown";
#endif
}

double KnownError(const TensorComparison& comparison) {
  const double times = ErrorOverBound(comparison);
  if (comparison.metrics.non_finite() > 0) return times;
  const std::string& type = comparison.type;
  // An error that is large for its bound only because the result is near 0 is
  // measured as it would be at 1.
  const double half_ulp = HalfUlpOfOne(type.substr(0, type.find(' ')));
  if (half_ulp == 0) return times;
  return std::min(times, comparison.metrics.largest_error.error / half_ulp);
}

std::optional<KnownUse> FindKnown(absl::Span<const KnownDeviation> rows,
                                  std::string_view operation,
                                  std::string_view dtype, double error,
                                  const std::optional<Cause>& cause) {
  std::optional<KnownUse> nearest;
  for (const KnownDeviation& row : rows) {
    if (row.operation != operation || row.dtype != dtype) continue;
    // Several rows may be about one operator: the one that comes nearest to
    // explaining the error is shown, even if none does.
    const double times = TimesOf(row, error, cause);
    if (!nearest.has_value() || times < nearest->times) nearest = {row, times};
  }
  return nearest;
}

}  // namespace nodewise

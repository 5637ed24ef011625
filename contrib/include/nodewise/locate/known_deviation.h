#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/locate/cause.h"

namespace nodewise {

// How a runtime computes an operator otherwise than by its definition, without
// being wrong. Only classes are known, each with a bound that was measured; an
// error of twice that bound is not known any more.
struct KnownDeviation {
  enum class Kind : uint8_t {
    kApproximation,  // A function is approximated.
    kRounding,       // Results of a short type are rounded at another place.
    kShortType,      // It is computed in a shorter type.
    kStep,           // Integers are one step off.
    kSaturation,     // Sums of 8-bit products do not fit 16 bits.
  };

  Kind kind{};
  std::string operation;  // "Sigmoid"
  std::string dtype;      // The type it makes: "float32".
  std::string type = {};  // For kShortType: "bfloat16".
  // The largest error that was measured, as KnownError(). 0 where the kind
  // alone says how far it may be off.
  double times = 0;
  // The row is about every runtime that has none of its own.
  bool is_of_any = false;
};

// Returns "approximation", "rounding", "shorter", "step" or "saturation".
std::string_view NameOf(KnownDeviation::Kind kind);
// Returns whether rows of the kind have a largest error.
bool HasTimes(KnownDeviation::Kind kind);

// Behind "is" or "are": "an approximation, up to 4.2 times what rounding may
// do".
std::string WordsOf(const KnownDeviation& known);

// What is known of one runtime in one version on processors with one set of
// instructions.
struct KnownRuntime {
  // How its adapter calls it, or the beginning of that up to a comma:
  // "onnxruntime 1.32.0, CPUExecutionProvider". Or "any".
  std::string runtime;
  std::string instructions;  // InstructionSet(), or "any".
  std::vector<KnownDeviation> rows = {};
};

// Reads a table of runtimes (docs/known_deviations.md). Fails with
// kInvalidArgument, naming the line of `place`.
absl::StatusOr<std::vector<KnownRuntime>> ParseKnownRuntimes(
    std::string_view text, const std::string& place);
// Writes what ParseKnownRuntimes() reads.
std::string TextOf(const KnownRuntime& known);

// Returns the table that is a part of the program.
const std::vector<KnownRuntime>& BuiltInKnownRuntimes();

// Returns what a runtime calls itself up to the first comma: "onnxruntime
// 1.32.0".
std::string_view RuntimeVersion(std::string_view runtime);

// Returns of what the row is known, where it was found for a runtime that calls
// itself so: "onnxruntime 1.32.0", "many runtimes".
std::string_view KnownOf(const KnownDeviation& row, std::string_view runtime);

// Returns all rows of the runtime that calls itself so on this processor; those
// of "any" runtime if there are none of it.
std::vector<KnownDeviation> RowsOf(absl::Span<const KnownRuntime> known,
                                   std::string_view runtime);

// Returns the newest of the sets of instructions by which kernels are chosen
// that this processor has: "avx512_vnni".
std::string_view InstructionSet();

// Returns the largest error as a multiple of what rounding may do to its
// element, or of half an ulp of 1 where that is more: what approximates a
// function leaves the error of its largest results in those near 0, too.
double KnownError(const TensorComparison& comparison);

// An error beside the row that is nearest to explaining it.
struct KnownUse {
  KnownDeviation row;
  // The error, as a multiple of the row's; infinite where it is of another
  // kind.
  double times = 0;

  bool is_within() const { return times < 2; }
};

// Returns none if there is no row of that operation and type. The error is
// KnownError().
std::optional<KnownUse> FindKnown(absl::Span<const KnownDeviation> rows,
                                  std::string_view operation,
                                  std::string_view dtype, double error,
                                  const std::optional<Cause>& cause);

}  // namespace nodewise

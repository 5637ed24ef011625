#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/layout.h"

namespace nodewise {

// Returns whether the compiled tensor has integers that may stand for the
// floats of the network's, by their statistics: one step is as long with each
// set of inputs.
bool MayBeQuantised(const TensorFacts& source, const TensorFacts& compiled);

// Returns the scale and zero point with which the integers in that layout are
// nearest to the floats, by least squares over all sets; none if the two are
// less alike than that, where 1 is on one line. Both are by set of inputs.
std::optional<Layout::Quantisation> FitQuantisation(
    const Layout& layout, absl::Span<const std::vector<double>> source,
    const TensorFacts& compiled_facts,
    absl::Span<const std::vector<double>> compiled, double least_likeness);

// Returns how far a number is from what an integer stands for, beyond the half
// step that rounding takes.
double DistanceBeyondRounding(const Layout::Quantisation& how, double expected,
                              double found);

}  // namespace nodewise

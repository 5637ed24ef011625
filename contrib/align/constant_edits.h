#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Calls `visit` with a constant as it may be misread, floats or integers, and
// with what was changed ("read backwards"), until it returns false: taken for
// zeros, with the other sign, moved by one element or by one step of the first
// side, read backwards as a whole or along that side, with sides of one length
// exchanged; and integers one too large or too small, all of them, or each of a
// few. Constants of many millions of numbers are passed over.
void VisitConstantEdits(
    const NDArray& constant,
    absl::FunctionRef<bool(const NDArray& changed, const std::string& what)>
        visit);

}  // namespace nodewise

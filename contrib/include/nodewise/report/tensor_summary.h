#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/report/report.h"
#include "nodewise/session/session.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// A summary of a tensor. Values are text, since no single number type holds the
// values of all tensors: integers exactly, floats with the shortest digits that
// read back the same, 8-bit floats and other types without arithmetic as
// hexadecimal bytes.
struct TensorSummary {
  bool has_numbers = false;  // Else the next five mean nothing.
  std::string min = "null";  // Without NaN; "null" if there is none.
  std::string max = "null";
  double mean = 0;  // Over finite values; NaN without any.
  uint64_t nans = 0;
  uint64_t infinities = 0;
  std::vector<std::string> first;  // The first values, row by row.
};

// REQUIRES: the tensor is compact and in host memory; it need not be aligned.
TensorSummary SummariseTensor(const DLTensor& tensor, size_t num_first);

// Adds the members min, max, mean, nans and infinities, where there are any.
void AddSummary(const TensorSummary& summary, JsonWriter* json);

// Returns the number in at most six digits, for people; other text unchanged.
std::string ShortNumber(const std::string& text);
std::string ShortNumber(double value);

// What an archive keeps of a tensor, a few kilobytes however large it is, so
// that a page can show it without another run.
struct TensorDigest {
  TensorKey key;
  std::string dtype;
  std::vector<int64_t> shape;
  bool has_numbers = false;  // Else what follows is empty.
  uint64_t nans = 0;
  uint64_t infinities = 0;
  double min = 0, max = 0, mean = 0;  // Over finite numbers.
  // How many finite numbers lie in each of equal parts of [min, max].
  std::vector<uint64_t> histogram;
  // Numbers at equal distances along the two last sides of the first part, row
  // by row.
  uint64_t slice_rows = 0, slice_columns = 0;
  std::vector<double> slice;
};

// REQUIRES: the tensor is compact and in host memory; it need not be aligned.
TensorDigest DigestOf(const TensorKey& key, const DLTensor& tensor);

// Adds what a run of the session makes as the document's `digests`. A note says
// why where there is not all of it.
void AddDigestsOf(const Session& session, Report* report);
// Adds what is compared, too: `digests` of what is judged, and of what it is
// compared with `expected_digests`.
void AddDigestsOf(TensorSource& expected, TensorSource& actual, Report* report);

}  // namespace nodewise

// A page of an archive cannot have all of a tensor: it shows a digest, a
// histogram and a slice, which are made in two passes without a copy.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

constexpr size_t kParts = 32;        // The bars of a histogram.
constexpr int64_t kMostOfSide = 12;  // The longest side of a slice.
constexpr size_t kBlock = 4096;      // Elements that are decoded at a time.

// Returns false for a type whose elements have no numbers.
template <typename F>
bool ForBlocks(const DLTensor& tensor, size_t count, F f) {
  std::array<double, kBlock> numbers;
  const auto* const data = static_cast<const uint8_t*>(DataOf(tensor));
  const size_t bytes = ElementBytes(tensor.dtype) / tensor.dtype.lanes;
  for (size_t i = 0; i < count; i += kBlock) {
    const size_t size = std::min(kBlock, count - i);
    if (!DecodeToDoubles(tensor.dtype, data + i * bytes, size,
                         numbers.data())) {
      return false;
    }
    f(absl::MakeConstSpan(numbers).subspan(0, size));
  }
  return true;
}

// The range is kept as infinities the wrong way round until a number is found.
void CountNumbers(absl::Span<const double> numbers, double* sum,
                  uint64_t* finite, TensorDigest* digest) {
  for (const double x : numbers) {
    if (std::isnan(x)) {
      ++digest->nans;
    } else if (std::isinf(x)) {
      ++digest->infinities;
    } else {
      digest->min = std::min(digest->min, x);
      digest->max = std::max(digest->max, x);
      *sum += x;
      ++*finite;
    }
  }
}

// A second pass, since the parts are of a range that the first has found.
void CountParts(absl::Span<const double> numbers, TensorDigest* digest) {
  const double range = digest->max - digest->min;
  for (const double x : numbers) {
    if (!std::isfinite(x)) continue;
    // A range may be too large for a double.
    const double part =
        range > 0 && std::isfinite(range) ? (x - digest->min) / range : 0;
    const auto bin = static_cast<size_t>(part * kParts);
    ++digest->histogram[std::min(bin, kParts - 1)];
  }
}

// Takes the two last sides; what has fewer has sides of 1. Rows and columns are
// taken at equal distances, so that a slice looks like the tensor.
void TakeSlice(const DLTensor& tensor, TensorDigest* digest) {
  const std::vector<int64_t>& shape = digest->shape;
  const int64_t lanes = tensor.dtype.lanes;
  const int64_t columns = shape.empty() ? 1 : shape.back();
  const int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  digest->slice_rows = static_cast<uint64_t>(std::min(rows, kMostOfSide));
  digest->slice_columns = static_cast<uint64_t>(std::min(columns, kMostOfSide));
  const auto* const data = static_cast<const uint8_t*>(DataOf(tensor));
  const size_t bytes = ElementBytes(tensor.dtype);
  for (uint64_t r = 0; r < digest->slice_rows; ++r) {
    for (uint64_t c = 0; c < digest->slice_columns; ++c) {
      const uint64_t row = r * static_cast<uint64_t>(rows) / digest->slice_rows;
      const uint64_t column =
          c * static_cast<uint64_t>(columns) / digest->slice_columns;
      std::vector<double> number(static_cast<size_t>(lanes));
      DecodeToDoubles(
          tensor.dtype,
          data + (row * static_cast<uint64_t>(columns) + column) * bytes,
          number.size(), number.data());
      digest->slice.push_back(number[0]);
    }
  }
}

// Digests what nodes make as it comes, so that no more than one tensor is held.
// Tensors that they read have been digested where they were made.
class DigestSink : public TensorSink {
 public:
  explicit DigestSink(std::vector<TensorDigest>* digests)
      : digests_(*digests) {}

  absl::Status Consume(const TensorItem& item) override {
    if (item.tensor == nullptr || item.key.role == TensorRole::kInput) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, item.Keep());
    const DefaultFloatEnvironment floats;
    digests_.push_back(DigestOf(item.key, *tensor));
    return absl::OkStatus();
  }

 private:
  std::vector<TensorDigest>& digests_;
};

// Digests need all tensors of a run, and any runner that hands them out will
// do.
absl::StatusOr<std::unique_ptr<Runner>> RunnerOf(const Session& session) {
  if (session.target == nullptr) return MakeNetworkRunner(session);
  RunnerTarget target{session.name, session.target};
  // A network that crashes must not take with it what is known already.
  const std::string_view kind =
      HasRunnerFor("guarded", target) ? "guarded" : "debug";
  NODEWISE_ASSIGN_OR_RETURN(const auto maker, MakerOf(kind, std::move(target)));
  return maker();
}

// Runs what the session opened once, or reads its dump, and digests every
// tensor of it. Tensors that were digested before a failure are in `digests`.
absl::Status DigestRun(const Session& session,
                       std::vector<TensorDigest>* digests) {
  DigestSink sink(digests);
  if (!session.dump.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(const DumpedRun run, OpenDumpedRun(session.dump));
    return run.source->Visit(sink);
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, RunnerOf(session));
  RunOptions options;
  options.sink = &sink;
  return runner->Run(session.NamedInputs(), options).status();
}

// A report is complete without its digests, which are only there to be looked
// at; so a failure is a note.
void NoteNotAll(const absl::Status& status, Report* report) {
  if (status.ok()) return;
  report->notes.push_back(fmt::format(
      "archive: has what came before a failure: {}", MessageOf(status)));
}

void AddDigests(std::string_view member,
                const std::vector<TensorDigest>& digests, JsonWriter* json) {
  AddObjects(json, member, digests, [&](const auto& digest) {
    AddMembers(json, "tensor", digest.key.Name(), "dtype", digest.dtype,
               "shape", digest.shape);
    if (!digest.has_numbers) return;
    AddMembers(
        json, "min", digest.min, "max", digest.max, "mean", digest.mean, "nans",
        digest.nans, "infinities", digest.infinities, "histogram",
        std::vector<int64_t>(digest.histogram.begin(), digest.histogram.end()),
        "slice_rows", digest.slice_rows, "slice_columns", digest.slice_columns);
    // JSON has no NaN. A page shows no more than five digits of a number.
    std::vector<std::string> slice;
    for (const double x : digest.slice) {
      slice.push_back(std::isfinite(x) ? fmt::format("{:.5g}", x) : "null");
    }
    json->AddScalars("slice", slice);
  });
}

}  // namespace

TensorDigest DigestOf(const TensorKey& key, const DLTensor& tensor) {
  TensorDigest digest;
  digest.key = key;
  digest.dtype = ToString(tensor.dtype);
  const absl::Span<const int64_t> shape = ShapeOf(tensor);
  digest.shape.assign(shape.begin(), shape.end());
  const size_t count =
      static_cast<size_t>(NumElements(shape).value_or(0)) * tensor.dtype.lanes;
  if (IsPacked(tensor.dtype) || count == 0) return digest;
  digest.min = std::numeric_limits<double>::infinity();
  digest.max = -digest.min;
  double sum = 0;
  uint64_t finite = 0;
  digest.has_numbers =
      ForBlocks(tensor, count, [&](absl::Span<const double> numbers) {
        CountNumbers(numbers, &sum, &finite, &digest);
      });
  if (finite == 0) digest.min = digest.max = 0;
  if (!digest.has_numbers) return digest;
  digest.mean = finite == 0 ? 0 : sum / static_cast<double>(finite);
  digest.histogram.resize(kParts);
  ForBlocks(tensor, count, [&](absl::Span<const double> numbers) {
    CountParts(numbers, &digest);
  });
  TakeSlice(tensor, &digest);
  return digest;
}

// With a folder of samples there is no run that the digests could be of.
void AddDigestsOf(const Session& session, Report* report) {
  if (!session.samples.empty()) return;
  std::vector<TensorDigest> digests;
  NoteNotAll(DigestRun(session, &digests), report);
  AddDigests("digests", digests, &report->json);
}

void AddDigestsOf(TensorSource& expected, TensorSource& actual,
                  Report* report) {
  const std::pair<std::string_view, TensorSource*> sides[] = {
      {"expected_digests", &expected}, {"digests", &actual}};
  for (const auto& [member, source] : sides) {
    std::vector<TensorDigest> digests;
    DigestSink sink(&digests);
    NoteNotAll(source->Visit(sink), report);
    AddDigests(member, digests, &report->json);
  }
}

}  // namespace nodewise

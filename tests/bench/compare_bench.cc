// The core metrics of two tensors against reading both of them once, on two
// threads, and against numpy's expressions over whole arrays.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "nodewise/compare/metrics.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/support/check.h"
#include "nodewise/support/file.h"
#include "nodewise/support/thread_pool.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/debug_sides.h"
#include "tests/bench/peer.h"
#include "tests/bench/ratio.h"
#include "tests/bench/read_pass.h"

namespace nodewise {
namespace {

constexpr size_t kElements = 100'000'000;
constexpr int kRounds = 11;
constexpr int kThreads = 2;
constexpr Tolerance kTolerance = {1e-5, 1e-4};

constexpr DLDataType kInt8{kDLInt, 8, 1};

// Returns element `i`: of many sizes, and the actual one a little off.
float ElementOf(size_t i, bool is_actual) {
  const auto bits = static_cast<uint32_t>(i * 2654435761U);
  const float value = (static_cast<float>(bits >> 8) / 0x1p24F - 0.5F) * 2.0F;
  const auto noise = static_cast<float>(bits & 0xFF) / 0x1p8F - 0.5F;
  return is_actual ? value * (1 + noise * 1e-5F) : value;
}

void StoreElement(float value, size_t i, DLDataType dtype, uint8_t* to) {
  if (dtype == kFloat32) {
    std::memcpy(to + 4 * i, &value, sizeof(value));
  } else if (dtype == kInt8) {
    to[i] = static_cast<uint8_t>(static_cast<int8_t>(value * 100));
  } else {
    const uint16_t bits =
        dtype.code == kDLBfloat ? FloatToBfloat(value) : FloatToHalf(value);
    std::memcpy(to + 2 * i, &bits, sizeof(bits));
  }
}

// A tensor in a mapped file.
class MappedTensor {
 public:
  MappedTensor(const std::string& path, DLDataType dtype, bool is_actual)
      : path_(path) {
    std::vector<uint8_t> bytes(kElements * ElementBytes(dtype));
    for (size_t i = 0; i < kElements; ++i) {
      StoreElement(ElementOf(i, is_actual), i, dtype, bytes.data());
    }
    auto file = OutputFile::Create(path);
    NODEWISE_CHECK(file.ok() && file->Write(bytes.data(), bytes.size()).ok() &&
                   file->Commit().ok());
    auto mapped = MappedFile::Open(path);
    NODEWISE_CHECK(mapped.ok());
    const auto shared = std::make_shared<const MappedFile>(*std::move(mapped));
    const int64_t shape[] = {kElements};
    tensor_ = NDArray::Map(shared->bytes(), shape, dtype, shared);
  }

  const std::string& path() const { return path_; }
  const DLTensor& operator*() const { return *tensor_; }
  const uint8_t* data() const { return tensor_.As<uint8_t>(); }
  size_t bytes() const { return tensor_.bytes(); }

 private:
  std::string path_;
  NDArray tensor_;
};

struct TensorPairFiles {
  TensorPairFiles(const DumpPlace& place, const std::string& name,
                  DLDataType dtype)
      : expected(place.path() + "/" + name + ".expected", dtype, false),
        actual(place.path() + "/" + name + ".actual", dtype, true) {}

  MappedTensor expected, actual;
};

double TimeOfMetrics(const TensorPairFiles& pair) {
  return NanosecondsOf([&] {
    const auto metrics =
        MeasureDifference(*pair.expected, *pair.actual, kTolerance);
    NODEWISE_CHECK(metrics.ok() && metrics->elements == kElements);
  });
}

double TimeOfReading(const TensorPairFiles& pair) {
  volatile uint64_t sums[kThreads];
  return NanosecondsOf([&] {
    const size_t part = pair.expected.bytes() / kThreads;
    const auto read = [&](int task, TaskGroup&) {
      const size_t first = part * static_cast<size_t>(task);
      sums[task] = NodewiseReadPass(pair.expected.data() + first, part) +
                   NodewiseReadPass(pair.actual.data() + first, part);
      return absl::OkStatus();
    };
    NODEWISE_CHECK(ParallelRun(kThreads, read).ok());
  });
}

// The files of one benchmark, and two threads for it.
class CompareSetting {
 public:
  CompareSetting() {
    SetNumThreads(kThreads);
    std::filesystem::create_directories(place_.path());
  }
  ~CompareSetting() { SetNumThreads(0); }

  TensorPairFiles Make(const std::string& name, DLDataType dtype) const {
    return {place_, name, dtype};
  }

 private:
  DumpPlace place_;
};

// Compares the best times of each side, since disturbances make times longer.
double RatioOfBest(const TimedSide& ours, const TimedSide& baseline,
                   int rounds) {
  const auto times = TimeInTurns({ours, baseline}, rounds);
  return *std::min_element(times[0].begin(), times[0].end()) /
         *std::min_element(times[1].begin(), times[1].end());
}

bool BenchAgainstReading(const std::string& name, DLDataType dtype,
                         double limit) {
  const CompareSetting setting;
  const TensorPairFiles pair = setting.Make("tensor", dtype);
  const double ratio =
      RatioOfBest([&] { return TimeOfMetrics(pair); },
                  [&] { return TimeOfReading(pair); }, kRounds);
  return ReportValue(name, ratio, limit, "of the time of reading both once");
}

}  // namespace

bool BenchCompareFloat32(const std::string& name) {
  return BenchAgainstReading(name, kFloat32, 1 / 0.5);
}
bool BenchCompareFloat16(const std::string& name) {
  return BenchAgainstReading(name, {kDLFloat, 16, 1}, 1 / 0.3);
}
bool BenchCompareBfloat16(const std::string& name) {
  return BenchAgainstReading(name, {kDLBfloat, 16, 1}, 1 / 0.3);
}

bool BenchCompareInt8(const std::string& name) {
  const CompareSetting setting;
  const TensorPairFiles bytes = setting.Make("int8", kInt8);
  const TensorPairFiles floats = setting.Make("float32", kFloat32);
  const double ratio =
      RatioOfBest([&] { return TimeOfMetrics(bytes); },
                  [&] { return TimeOfMetrics(floats); }, kRounds);
  return ReportValue(name, ratio, 1, "of the time of as many float32");
}

bool BenchCompareNumpy(const std::string& name) {
  constexpr int kNumpyRounds = 3;
  const std::string venv = NODEWISE_BUILD_DIR "/venv";
  if (!std::filesystem::exists(venv + "/is_complete")) {
    std::printf("%s: skipped: numpy is not in build/venv (./dev setup)\n",
                name.c_str());
    return true;
  }
  const CompareSetting setting;
  const TensorPairFiles pair = setting.Make("float32", kFloat32);
  Peer numpy({venv + "/bin/python",
              NODEWISE_SOURCE_DIR "/tests/bench/compare_child.py",
              pair.expected.path(), pair.actual.path()});
  const double ratio =
      RatioOfBest([&] { return TimeOfMetrics(pair); },
                  [&] { return numpy.Ask("run"); }, kNumpyRounds);
  return ReportValue(name, ratio, 1 / 15.0, "of the time of numpy");
}

}  // namespace nodewise

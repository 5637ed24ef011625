// What the Python package adds to the library: to a run, and to opening a dump.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/check.h"
#include "nodewise/support/file.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/chain.h"
#include "tests/bench/debug_networks.h"
#include "tests/bench/debug_sides.h"
#include "tests/bench/peer.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 51;
constexpr int kRepeats = 2000;
constexpr int64_t kFloats = 16;

const std::string& Python() {
  static const std::string path = NODEWISE_BUILD_DIR "/venv/bin/python";
  return path;
}

// The artefact folder of a graph whose inputs are all to be given.
class GraphFolder {
 public:
  explicit GraphFolder(const Graph& graph)
      : path_(fs::temp_directory_path() /
              fmt::format("nodewise_bench_python_{}", getpid())) {
    fs::create_directories(path_);
    auto file = OutputFile::Create((path_ / "graph.json").string());
    NODEWISE_CHECK(file.ok() && file->Write(WriteGraph(graph)).ok() &&
                   file->Commit().ok());
    NODEWISE_CHECK(
        WriteParams((path_ / "params.params").string(), no_parameters_).ok());
    fs::copy_file(NODEWISE_BENCH_KERNELS, path_ / "lib.so",
                  fs::copy_options::overwrite_existing);
  }
  GraphFolder(const GraphFolder&) = delete;
  GraphFolder& operator=(const GraphFolder&) = delete;
  ~GraphFolder() { fs::remove_all(path_); }

  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
  std::vector<NamedTensor> no_parameters_;
};

// Is there a Python that has numpy, and the native half of the package?
bool CanRun(const std::string& name) {
  const bool has_module =
      fs::exists(NODEWISE_BUILD_DIR "/lib/python") &&
      RunProgram({Python(), "-c", "import numpy, nanobind_backend"});
  if (!has_module) {
    std::printf(
        "%s: skipped: the native module was not built, or %s lacks "
        "numpy (./dev setup)\n",
        name.c_str(), Python().c_str());
  }
  return has_module;
}

Peer StartPython() {
  return Peer({Python(), NODEWISE_SOURCE_DIR "/tests/bench/python_child.py"});
}

class NamesSink : public TensorSink {
 public:
  absl::Status Consume(const TensorItem& item) override {
    names_.push_back(item.key.Name());
    return absl::OkStatus();
  }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
};

}  // namespace

bool BenchPythonRun(const std::string& name) {
  constexpr double kMostMicroseconds = 5;
  if (!CanRun(name)) return true;
  const TimedNetwork network = SmallChain(1);
  const GraphFolder folder(network.graph);
  const auto executor = MakePlain(network);
  const NDArray ones = Ones(kFloats);
  Peer python = StartPython();
  const auto times = TimeInTurns(
      {[&] {
         return python.Ask(fmt::format("run {} {}", folder.path(), kRepeats));
       },
       [&] {
         return NanosecondsOfEach(kRepeats, [&] {
           NODEWISE_CHECK(executor->SetInput(0, *ones).ok());
           NODEWISE_CHECK(executor->SetInput(1, *ones).ok());
           NODEWISE_CHECK(executor->Run().ok());
           NODEWISE_CHECK(executor->GetOutput(0).ok());
         });
       }},
      kRounds);
  std::vector<double> added;
  for (size_t i = 0; i < times[0].size(); ++i) {
    added.push_back((times[0][i] - times[1][i]) / 1000);
  }
  return ReportValue(name, Quantile(added, 0.5), kMostMicroseconds, "us");
}

bool BenchPythonDump(const std::string& name) {
  if (!CanRun(name)) return true;
  DumpPlace place;
  const auto executor = MakeDebug(SmallChain(10'000), DumpTo(place));
  NODEWISE_CHECK(executor->Run().ok() && executor->dump_status().ok());
  const std::string dump = executor->dump_folder();
  Peer python = StartPython();
  return RunContest({name, 1.5, kRounds,
                     [&] { return python.Ask("open " + dump); },
                     [&] {
                       return NanosecondsOf([&] {
                         auto source = OpenTensorSource(dump);
                         NODEWISE_CHECK(source.ok());
                         NamesSink names;
                         NODEWISE_CHECK((*source)->Visit(names).ok());
                         NODEWISE_CHECK(names.size() >= 10'000);
                       });
                     }});
}

}  // namespace nodewise

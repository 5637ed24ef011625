#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/artefact/artefact.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"
#include "nodewise/precision/calibration.h"
#include "nodewise/precision/precision.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/input_files.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// What is to be opened, and how: plain values that a command line, a script or
// another program fills in. A member that is left as it is has its usual
// meaning.

// The seed of random operators that have none of their own.
inline constexpr uint64_t kUsualSeed = 1;

// How a model is read.
struct ModelSpec {
  std::vector<std::pair<std::string, int64_t>> dims = {};  // Sizes by name.
  std::vector<NamedTensor> freeze = {};  // Inputs that are always these.
  std::optional<uint64_t> seed = {};
  // The program that runs operations that are not known here, in this whole
  // process; reports call it by its name. Null: they are not run, and what
  // depends on them is not computed.
  std::shared_ptr<const ForeignTarget> opaque_program = nullptr;
  // What has been found of types that the model does not state, by value.
  std::vector<std::pair<std::string, TensorType>> opaque_types = {};
  // As in ImportOptions.
  bool report_unused = false;
  bool check_specification = false;
  bool refuse_unsorted = false;
  std::vector<const FindingKind*>* kinds = nullptr;
};

// How a model becomes a graph that executors run.
struct LoweringSpec {
  std::optional<Backend> backend = {};  // None: the fastest.
  bool fuses = true;            // Several operations may become one node.
  bool reuses_storage = true;   // Tensors may lie where others have been.
  bool chooses_layouts = true;  // Tensors may have their channels last.
};

// Inputs to learn ranges of numbers from: all in one file, an ONNX test set, or
// drawn.
struct SampleSpec {
  std::string path = {};
  std::optional<uint64_t> seed = {};  // Then there is no path.
};

// In which precision a model computes.
struct PrecisionSpec {
  std::optional<Precision> precision = {};  // None: as it is.
  std::vector<SampleSpec> samples = {};
  CalibrationMethod calibration = {};
  std::string keep = {};  // Operations in whose name this is found stay as is.
  // Each costs runs of the reference.
  bool measures_errors = false;
  bool ranks_operations = false;
};

// Where the inputs of a run come from. What neither a file nor a tensor gives
// is drawn, if there is a seed.
struct InputSpec {
  std::vector<InputFile> files = {};
  std::vector<NamedTensor> tensors = {};
  std::optional<uint64_t> seed = {};
  // What messages say one can do about inputs that are missing.
  InputCollector::Hints hints = {};

  bool is_empty() const {
    return files.empty() && tensors.empty() && !seed.has_value();
  }
};

// A network: a file or folder, or what is in memory already.
struct TargetSpec {
  // An artefact folder, a library, a graph or a model. With `graph` or
  // `network` it is only what messages call the target.
  std::string path = {};
  std::shared_ptr<const GraphTarget> graph = nullptr;  // Compiled, in memory.
  std::shared_ptr<const Network> network = nullptr;    // A model in memory.
  // What runs the model, if that is something else; the model stays a network.
  std::shared_ptr<const NetworkProgram> program = nullptr;

  // For a compiled network: its files, if they do not lie beside `path`, the
  // function of a library for virtual machines, and the devices (the CPU).
  std::string library = {};
  std::string params = {};
  std::string function = {};
  std::vector<DLDevice> devices = {};

  // For a model.
  ModelSpec model = {};
  LoweringSpec lowering = {};
  PrecisionSpec precision = {};
  std::string passes = {};  // Names with commas between them (pass_list.h).
  // It stays whole, for a program that knows what is opaque in it.
  bool keeps_opaque = false;
  // Without all sizes it stays a network, for the interpreter; else it is
  // refused.
  bool keeps_open_sizes = false;

  InputSpec inputs = {};
  // A folder with many inputs (nodewise/runner/sample_folder.h), each read when
  // it is its turn; `inputs` are for all of them: what it names, and a seed for
  // what is not in a sample.
  std::string samples = {};
  // The path is the folder of a dump, of which nothing runs.
  bool is_dump = false;
  // Regular expressions: the nodes that the reference is to compute.
  std::vector<std::string> stand_ins = {};
};

}  // namespace nodewise

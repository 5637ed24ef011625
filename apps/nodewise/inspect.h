#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/model_options.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// What `inspect` says of one file, in both forms.
struct Inspection {
  std::string text;
  JsonWriter json;          // Inside the object of the file.
  size_t max_lines = 0;     // Of a list in `text`; 0 means all.
  bool may_be_cut = false;  // A .params file that is cut is no error.
  std::string function;     // Of a VM library, whose graph to show.
  // What is wrong with a part of it, where the rest holds and is shown.
  absl::Status damage;
};

// The names that a params file holds, or nothing if there is none to ask.
using ParamNames = std::optional<std::set<std::string>>;

// One function a kind of file. Each adds what it finds; where it fails, what
// it added before holds all the same. Nothing of a file is ever run.
absl::Status InspectGraph(const std::string& path, const ParamNames& params,
                          Inspection* inspection);
absl::Status InspectLibrary(const std::string& path, Inspection* inspection);
// The VM functions of a library that has some, and the graph of one of them.
absl::Status InspectBytecode(const std::string& path, Inspection* inspection);
// `format` is .npy, .npz, .params or .pb.
absl::Status InspectTensors(const std::string& path, const std::string& format,
                            Inspection* inspection);

absl::Status InspectModel(const std::string& path, const ModelOptions& options,
                          Inspection* inspection);

// Whether a folder is, or is above, a dump; what is in it.
bool IsDump(const std::string& path);
absl::Status InspectDump(const std::string& path, Inspection* inspection);
// Writes the complete tensors of a dump or a .params file to a file of its own.
absl::Status Recover(const std::string& path, const std::string& to,
                     Inspection* inspection);

// A list of tensors, each with its range.
void AddTensors(const std::vector<NamedTensor>& tensors,
                Inspection* inspection);
// What a file promises and does not hold.
void AddMissing(const std::vector<std::string>& missing, bool is_cut,
                Inspection* inspection);

// A graph that has been read, wherever it was.
void DescribeGraph(const Graph& graph, const ParamNames& params,
                   Inspection* inspection);

// A list under its title: "  functions  7" and its lines, at most max_lines.
void AddList(const std::string& title, const std::vector<std::string>& lines,
             Inspection* inspection);

// A line "  title  value".
void AddLine(const std::string& title, const std::string& value,
             Inspection* inspection);

}  // namespace nodewise

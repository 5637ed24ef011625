#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/report/report.h"
#include "nodewise/session/target_spec.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {

// What is in one file, in both forms.
struct Inspection {
  ReportText text;
  JsonWriter json;          // Members of the file's object.
  size_t max_lines = 0;     // Per list in `text`; 0 means all.
  bool may_be_cut = false;  // Accepts a cut .params file.
  std::string function;     // A VM library's, whose graph to show.
  std::string node;         // A model's, to show alone.
  // What is wrong with one part of the file while the rest is shown.
  absl::Status damage;
};

// The names in a params file, or none if there is no such file.
using ParamFileNames = std::optional<std::set<std::string>>;

// One function for each kind of file. Each adds what it finds; if it fails,
// what it added before is still valid. Nothing in a file is ever run.
absl::Status InspectGraph(const std::string& path, const ParamFileNames& params,
                          Inspection* inspection);
absl::Status InspectLibrary(const std::string& path, Inspection* inspection);
// `format` is .npy, .npz, .params or .pb.
absl::Status InspectTensors(const std::string& path, const std::string& format,
                            Inspection* inspection);

// Or one operation of the model, if the inspection is of a node.
absl::Status InspectModel(const std::string& path, const ModelSpec& spec,
                          Inspection* inspection);

// What a file holds. The content decides, since a file may have been renamed.
// One that is damaged at the front is judged by its name, so that its reader
// says what is wrong with it.
enum class FileKind { kGraph, kLibrary, kNpy, kNpz, kParams, kPb, kModel };
absl::StatusOr<FileKind> KindOfFile(const std::string& path);

// Inspects a file of any kind, or a folder with a dump.
absl::Status InspectFile(const std::string& path, const ParamFileNames& params,
                         const ModelSpec& model, Inspection* inspection);

// Returns the names in a params file, or none if it is damaged: inspecting it
// will say where. What cannot be read now may be readable then.
absl::StatusOr<ParamFileNames> ParamNamesIn(const std::string& path);

// Returns whether it is a folder that is, or is above, a dump; InspectDump
// shows it.
bool IsDump(const std::string& path);
absl::Status InspectDump(const std::string& path, Inspection* inspection);
// Writes the complete tensors of a dump or a .params file to a new file.
absl::Status Recover(const std::string& path, const std::string& to,
                     Inspection* inspection);

// Adds a list of tensors, each with its range.
void AddTensors(const std::vector<NamedTensor>& tensors,
                Inspection* inspection);
// Adds what a file announces but does not contain.
void AddMissing(const std::vector<std::string>& missing, bool is_cut,
                Inspection* inspection);

// Describes a graph that has been read, wherever it came from.
void DescribeGraph(const Graph& graph, const ParamFileNames& params,
                   Inspection* inspection);

// Adds a list under its title: "  functions  7" and its lines, at most
// max_lines.
void AddList(const std::string& title, const std::vector<std::string>& lines,
             Inspection* inspection);

// Adds such a list of rows, with text in the place of their number.
void AddTable(const std::string& title, const std::string& count,
              const TextTable& table, Inspection* inspection);

// Shows what was found in the file, as the next object of the document's array
// `files`; damage becomes an error.
void ShowInspection(const std::string& path, const Inspection& inspection,
                    Report* report);

// Adds a line "  title  value".
void AddLine(const std::string& title, const std::string& value,
             Inspection* inspection);

}  // namespace nodewise

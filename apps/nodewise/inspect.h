#pragma once

#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/json_output.h"
#include "nodewise/runtime/graph_json.h"

namespace nodewise {

// What `inspect` says of one file, in both forms.
struct Inspection {
  std::string text;
  JsonWriter json;       // Inside the object of the file.
  size_t max_lines = 0;  // Of a list in `text`; 0 means all.
};

// The names that a params file holds, or nothing if there is none to ask.
using ParamNames = std::optional<std::set<std::string>>;

// One function a kind of file. Each adds what it finds; where it fails, what
// it added before holds all the same. Nothing of a file is ever run.
absl::Status InspectGraph(const std::string& path, const ParamNames& params,
                          Inspection* inspection);
absl::Status InspectLibrary(const std::string& path, Inspection* inspection);
// `format` is .npy, .npz or .params.
absl::Status InspectTensors(const std::string& path, const std::string& format,
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

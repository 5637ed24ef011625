#pragma once

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// The lists of a graph's attributes before they are known to agree.
struct GraphLists {
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLDataType> dtypes;
  std::vector<int64_t> storage_ids;
  std::vector<int64_t> device_types;
  std::vector<std::string> scopes;
  bool has_shapes = false;
  bool has_dtypes = false;
  bool has_storage_ids = false;
  bool has_device_types = false;
  bool has_scopes = false;
};

// Reads the JSON into the graph and the lists, and reports what is not of the
// right kind, missing or doubled. Returns false if the text is not JSON at all.
bool ReadGraphJson(const GraphText& text, Graph* graph, GraphLists* lists,
                   DiagnosticList* diagnostics);

}  // namespace nodewise

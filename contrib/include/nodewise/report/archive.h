#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/report/report.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// A document that was kept (docs/formats/archive.md), read back so that it can
// be shown again: what is in it, as far as this version knows it.
struct Archive {
  // A node of the graph that the question was about.
  struct Node {
    std::string key;
    std::string function;         // Empty for an input.
    std::vector<uint32_t> reads;  // Numbers of nodes.
    std::string kind;             // Its verdict; empty if there is none.
    std::string reason;
    bool is_culprit = false;
    // What a culprit is explained by, or the operations that it stands for.
    std::string explanation;
  };

  std::string verb;
  std::string version;
  std::vector<std::string> command;
  std::string status;  // "ok", "differs" or "error".
  ReportText text;
  std::vector<std::string> errors;  // Each as a line.
  std::vector<std::string> notes;
  std::vector<Node> nodes;  // Empty if there is no graph in it.
  std::string document;     // As it was read.
};

// Reads an archive. Members that it does not know are skipped. Fails with
// kInvalidArgument for a file that is none, and for one of a newer kind, whose
// name it gives; with kDataLoss, naming the member, where one is not what it
// should be.
absl::StatusOr<Archive> ReadArchive(const std::string& path);
absl::StatusOr<Archive> ParseArchive(std::string text, const std::string& name);

// Returns the archive as a report that can be shown.
Report ReportOf(const Archive& archive);

struct PictureOptions {
  // How many steps around the culprits are drawn, and how many nodes at most.
  size_t steps_before = 2;
  size_t steps_behind = 3;
  size_t most_nodes = 60;
};

// Returns a picture, as SVG, of the nodes around the culprits: these in red,
// what inherits from them in grey. A small graph without culprits is drawn
// whole. Fails with kNotFound if there is no graph in the archive, or it is
// large and nothing in it was named.
absl::StatusOr<std::string> PictureOf(const Archive& archive,
                                      const PictureOptions& options = {});

// Adds what a picture needs of a graph as the document's `graph`: the nodes in
// their order, each with its key, its function ("" for an input) and the
// numbers of the nodes that it reads.
void AddGraph(const GraphIndex& index, JsonWriter* json);

}  // namespace nodewise

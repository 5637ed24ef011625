#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// What a graph says of one output of a node.
struct TensorSpec {
  std::vector<int64_t> shape = {4};
  std::string dtype = "float32";
  int64_t storage_id = -1;  // Below 0: a storage of its own.
  int device_type = 0;      // 0: the graph does not mention devices.
};

// Makes the text of a graph JSON, node by node:
//
//   GraphBuilder().Input("x").Op("r", "relu", {"x"}).Head("r").File()
//
// A node is given by its name, its output 1 by "name:1", and if names are not
// unique by its number, "#3". It need not exist: "#9:2" is written literally.
class GraphBuilder {
 public:
  GraphBuilder& Input(const std::string& name, TensorSpec spec = {});
  GraphBuilder& Op(const std::string& name, const std::string& function,
                   const std::vector<std::string>& inputs,
                   const std::vector<TensorSpec>& outputs = {TensorSpec()});
  // An attribute of the last node; flatten_data is one too.
  GraphBuilder& Attr(const std::string& key, const std::string& value);
  GraphBuilder& Head(const std::string& output);

  // Changes to the finished JSON: removes what a path ("/nodes/1/attrs") names,
  // or puts JSON text there. Done in the order of the calls.
  GraphBuilder& Without(const std::string& path);
  GraphBuilder& With(const std::string& path, const std::string& json);

  // Indented by two; one line for each item.
  std::string Text() const;
  // The text as a file called graph.json.
  GraphText File() const;
  // REQUIRES: the graph is sound.
  Graph Build() const;

 private:
  struct Node {
    std::string name;
    std::string function;  // "" for an input.
    std::vector<EntryRef> inputs;
    std::vector<std::pair<std::string, std::string>> attrs;
    size_t num_outputs = 1;
  };

  EntryRef Find(const std::string& output) const;

  std::vector<Node> nodes_;
  std::vector<TensorSpec> entries_;
  std::vector<EntryRef> heads_;
  std::vector<std::pair<std::string, std::string>> edits_;
};

// x and y of float32 (4,), added, then relu.
GraphBuilder AddThenRelu();

// A text as a file called graph.json.
GraphText GraphFile(const std::string& text);

// All faults of a graph as lines, in their order.
std::vector<std::string> DiagnosticsOf(GraphText text);

}  // namespace nodewise

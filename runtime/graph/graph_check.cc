#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

std::string Outputs(uint32_t count) {
  return fmt::format("{} output{}", count, count == 1 ? "" : "s");
}

// Checks what the reader cannot see in one place of the text: references,
// counts that must agree, types. The steps build on each other: entries are
// numbered by node_row_ptr, so that nothing that uses an entry is looked at
// before the rows are sound.
class Checker {
 public:
  Checker(const Graph& graph, DiagnosticList* diagnostics)
      : graph_(graph), diagnostics_(diagnostics) {}

  void Check() {
    const bool rows_are_sound = CheckRows();
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) CheckInputCount(n);
    // A fault in the rows would otherwise be reported once for each entry
    // behind it: entries can be counted only on rows that are sound.
    if (!rows_are_sound || !CheckEntryCount()) return;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) CheckNode(n);
    CheckInputs();
    for (size_t h = 0; h < graph_.heads.size(); ++h) {
      CheckRef(graph_.heads[h], fmt::format("/heads/{}", h),
               graph_.nodes.size());
    }
    CheckEntries();
    if (diagnostics_->HasErrors()) return;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) CheckSpecialNode(n);
  }

 private:
  void Add(std::string path, std::string found, std::string expected = "",
           Severity severity = Severity::kError) {
    diagnostics_->Add({severity, graph_.text.name, std::move(path), 0, 0,
                       std::move(found), std::move(expected), ""});
  }
  void Warn(std::string path, std::string found, std::string expected = "") {
    Add(std::move(path), std::move(found), std::move(expected),
        Severity::kWarning);
  }

  // Returns whether node_row_ptr agrees with the lists of entries, and the
  // nodes' own numbers with neither.
  bool RowsFitEntries() const {
    const auto& rows = graph_.node_row_ptr;
    uint64_t outputs = 0;
    for (const GraphNode& node : graph_.nodes) outputs += node.num_outputs;
    return outputs != rows.back() && rows.back() == graph_.entries.size() &&
           std::ranges::is_sorted(rows);
  }

  // Where the rows agree with the lists, the node's own number is the lie.
  void AddWrongRow(size_t n, bool rows_are_right) {
    const auto& rows = graph_.node_row_ptr;
    const GraphNode& node = graph_.nodes[n];
    if (rows_are_right) {
      Add(fmt::format("/nodes/{}/attrs/num_outputs", n),
          std::to_string(node.num_outputs),
          fmt::format("{}, which node_row_ptr and the graph's lists have",
                      rows[n + 1] - rows[n]));
      return;
    }
    Add(fmt::format("/node_row_ptr/{}", n + 1), std::to_string(rows[n + 1]),
        fmt::format("{}: node {} ({}) begins at {} and has {}",
                    uint64_t{rows[n]} + node.num_outputs, n,
                    Shortened(node.name), rows[n], Outputs(node.num_outputs)));
  }

  // Rows that grow by each node's outputs are sorted and end at the number of
  // entries, which is all that Graph::EntryOf relies on.
  bool CheckRows() {
    const auto& rows = graph_.node_row_ptr;
    if (rows.size() != graph_.nodes.size() + 1) {
      Add("/node_row_ptr", fmt::format("{} items", rows.size()),
          fmt::format("{} (one per node and one more)",
                      graph_.nodes.size() + 1));
      return false;
    }
    if (rows[0] != 0) {
      Add("/node_row_ptr/0", std::to_string(rows[0]), "0");
      return false;
    }
    const bool rows_are_right = RowsFitEntries();
    bool sound = true;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      if (node.kind == GraphNode::Kind::kInput && node.num_outputs != 1) {
        sound = false;
        Add(fmt::format("/nodes/{}", n),
            fmt::format("input {} with {}", Shortened(node.name),
                        Outputs(node.num_outputs)),
            "one");
      }
      if (rows[n + 1] - rows[n] == node.num_outputs && rows[n + 1] >= rows[n]) {
        continue;
      }
      sound = false;
      AddWrongRow(n, rows_are_right);
    }
    return sound;
  }

  // ParseGraph has compared the lists with each other already; a graph that was
  // made by hand comes here first.
  bool CheckEntryCount() {
    const size_t count = graph_.node_row_ptr.back();
    const size_t scopes = graph_.storage_scopes.size();
    if (graph_.entries.size() != count) {
      Add("/attrs/shape", fmt::format("{} entries", graph_.entries.size()),
          std::to_string(count));
      return false;
    }
    if (scopes == 0 || scopes == count) return true;
    Add("/attrs/storage_scope", fmt::format("{} entries", scopes),
        std::to_string(count));
    return false;
  }

  bool CheckRef(const EntryRef& ref, const std::string& path, size_t before) {
    if (ref.node >= graph_.nodes.size()) {
      Add(path + "/0", fmt::format("node {}", ref.node),
          fmt::format("one of the {} nodes", graph_.nodes.size()));
      return false;
    }
    const GraphNode& node = graph_.nodes[ref.node];
    if (ref.node >= before) {
      Add(path + "/0",
          fmt::format("node {} ({}), which does not run before node {}",
                      ref.node, Shortened(node.name), before),
          "a node that runs earlier (the graph has a circle, or its nodes are "
          "out of order)");
      return false;
    }
    if (ref.output >= node.num_outputs) {
      Add(path + "/1",
          fmt::format("output {} of node {}, which has {}", ref.output,
                      ref.node, Outputs(node.num_outputs)));
      return false;
    }
    return true;
  }

  // Code that takes the number at its word would read past the list.
  void CheckInputCount(uint32_t n) {
    const GraphNode& node = graph_.nodes[n];
    if (node.kind == GraphNode::Kind::kInput ||
        node.num_inputs == node.inputs.size()) {
      return;
    }
    Add(fmt::format("/nodes/{}/attrs/num_inputs", n),
        std::to_string(node.num_inputs),
        fmt::format("{}, the number of its inputs", node.inputs.size()));
  }

  // Nodes run in their order, so that a node may only read what an earlier one
  // wrote.
  void CheckNode(uint32_t n) {
    const GraphNode& node = graph_.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      CheckRef(node.inputs[i], fmt::format("/nodes/{}/inputs/{}", n, i), n);
    }
    for (size_t i = 0; i < node.control_deps.size(); ++i) {
      if (node.control_deps[i] < n) continue;
      Add(fmt::format("/nodes/{}/control_deps/{}", n, i),
          fmt::format("node {}", node.control_deps[i]),
          fmt::format("a node before {}", n));
    }
    if (node.kind == GraphNode::Kind::kInput) {
      if (node.inputs.empty()) return;
      Warn(fmt::format("/nodes/{}/inputs", n),
           fmt::format("{} inputs of a node that computes nothing",
                       node.inputs.size()));
      return;
    }
    if (node.function.empty()) {
      Add(fmt::format("/nodes/{}/attrs/func_name", n), "an empty name");
    }
  }

  // An input that arg_nodes leaves out can never be set. It is an error only if
  // something reads it.
  void CheckInputs() {
    std::vector<bool> seen(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.arg_nodes.size(); ++i) {
      const uint32_t node = graph_.arg_nodes[i];
      const std::string path = fmt::format("/arg_nodes/{}", i);
      if (node >= graph_.nodes.size()) {
        Add(path, fmt::format("node {}", node),
            fmt::format("one of the {} nodes", graph_.nodes.size()));
      } else if (graph_.nodes[node].kind != GraphNode::Kind::kInput) {
        Add(path,
            fmt::format("node {} ({}), which is a function", node,
                        Shortened(graph_.nodes[node].name)),
            "a node with op \"null\"");
      } else if (seen[node]) {
        Add(path, fmt::format("node {} for the second time", node));
      } else {
        seen[node] = true;
      }
    }
    std::vector<bool> read(graph_.nodes.size(), false);
    const auto mark = [&](const std::vector<EntryRef>& refs) {
      for (const EntryRef& ref : refs) {
        if (ref.node < read.size()) read[ref.node] = true;
      }
    };
    for (const GraphNode& node : graph_.nodes) mark(node.inputs);
    mark(graph_.heads);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].kind == GraphNode::Kind::kFunction || seen[n])
        continue;
      Add(fmt::format("/nodes/{}", n),
          fmt::format("input {}, which arg_nodes leaves out",
                      Shortened(graph_.nodes[n].name)),
          "it among arg_nodes, or it cannot be set",
          read[n] ? Severity::kError : Severity::kWarning);
    }
  }

  // The checks of a type come first, since the size of a tensor means nothing
  // without them.
  void CheckEntries() {
    for (size_t e = 0; e < graph_.entries.size(); ++e) {
      const GraphEntry& entry = graph_.entries[e];
      const absl::Status dtype = CheckDType(entry.dtype);
      if (!dtype.ok()) {
        Add(fmt::format("/attrs/dltype/1/{}", e),
            std::string(MessageOf(dtype)));
      } else if (const auto bytes = TensorBytes(entry.shape, entry.dtype);
                 !bytes.ok()) {
        Add(fmt::format("/attrs/shape/1/{}", e),
            std::string(MessageOf(bytes.status())));
      }
      if (entry.storage_id < 0) {
        Add(fmt::format("/attrs/storage_id/1/{}", e),
            "a number below 0 or above 2147483647",
            "a storage id (a negative one means shapes known at run time only, "
            "which the graph executor cannot run)");
      }
      if (graph_.has_device_index && entry.device_type < 1) {
        Add(fmt::format("/attrs/device_index/1/{}", e), "no device type",
            "one such as 1 (cpu)");
      }
    }
  }

  // __nop passes its input on in another shape, __copy to another device. Other
  // functions are the library's, and nothing is known of what they do with
  // their tensors.
  void CheckSpecialNode(uint32_t n) {
    const GraphNode& node = graph_.nodes[n];
    if (node.kind != GraphNode::Kind::kFunction) return;
    const bool nop = node.function == kNopFunction;
    if (!nop && node.function != kCopyFunction) return;
    if (node.inputs.size() != 1 || node.num_outputs != 1) {
      Add(fmt::format("/nodes/{}", n),
          fmt::format("{} with {} inputs and {}", node.function,
                      node.inputs.size(), Outputs(node.num_outputs)),
          "one of each");
      return;
    }
    CheckSame(n, !nop);
  }

  // A copy keeps shape and type. A __nop keeps the bytes, which is all that it
  // passes on.
  void CheckSame(uint32_t n, bool types_too) {
    const GraphNode& node = graph_.nodes[n];
    const GraphEntry& from = graph_.entry(graph_.EntryOf(node.inputs[0]));
    const EntryId output = graph_.EntryOf(NodeId{n}, 0);
    const GraphEntry& to = graph_.entry(output);
    const size_t from_bytes = TensorBytes(from.shape, from.dtype).value_or(0);
    const size_t to_bytes = TensorBytes(to.shape, to.dtype).value_or(0);
    const bool same = types_too
                          ? from.shape == to.shape && from.dtype == to.dtype
                          : from_bytes == to_bytes;
    if (same) return;
    const auto text = [&](const GraphEntry& entry, size_t bytes) {
      if (!types_too) return fmt::format("{} bytes", bytes);
      return std::string(Shortened(TypeToString(entry.shape, entry.dtype)));
    };
    Add(fmt::format("/attrs/shape/1/{}", Index(output)),
        fmt::format("output of {} (node {}) with {}", node.function, n,
                    text(to, to_bytes)),
        fmt::format("{}, as its input has", text(from, from_bytes)));
  }

  const Graph& graph_;
  DiagnosticList* diagnostics_;
};

}  // namespace

void CheckGraph(const Graph& graph, DiagnosticList* diagnostics) {
  // The checker stops where errors would only follow from others. It goes by
  // this list alone, so that earlier findings do not stop it.
  DiagnosticList found;
  Checker(graph, &found).Check();
  diagnostics->Append(std::move(found));
}

}  // namespace nodewise

// A user's model for another program: the file's own bytes where nothing but
// more outputs is asked for, and a message that is written anew where nodes or
// inputs change.

#include "nodewise/onnx/user_model.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "contrib/onnx/onnx_messages.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

void VisitTensors(const proto::Graph& graph,
                  const std::function<void(const proto::Tensor&)>& f) {
  for (const proto::Tensor& tensor : graph.initializer()) f(tensor);
  for (const proto::Node& node : graph.node()) {
    for (const proto::Attribute& attribute : node.attribute()) {
      if (attribute.has_t()) f(attribute.t());
      if (attribute.has_g()) VisitTensors(attribute.g(), f);
    }
  }
}

void WriteValue(const UserModel::Value& value, proto::ValueInfo* to) {
  to->set_name(value.name);
  WriteType(value.type, to->mutable_type());
}

template <typename List>
void EraseNamed(const std::string& name, List* list) {
  list->erase(
      std::remove_if(list->begin(), list->end(),
                     [&](const auto& item) { return item.name() == name; }),
      list->end());
}

// What makes the value goes on making it, under another name, so that the value
// can be an input.
void AssignConstant(const UserModel::Value& value, const std::string& free_name,
                    proto::Graph* graph) {
  for (proto::Node& node : *graph->mutable_node()) {
    for (std::string& output : *node.mutable_output()) {
      if (output == value.name) output = free_name;
    }
  }
  EraseNamed(value.name, graph->mutable_output());
  // A second statement of the type might not agree with the first.
  EraseNamed(value.name, graph->mutable_value_info());
  WriteValue(value, graph->add_input());
}

bool IsAnyNeeded(const proto::Node& node, const std::set<std::string>& needed) {
  return std::ranges::any_of(node.output(), [&](const std::string& output) {
    return !output.empty() && needed.contains(output);
  });
}

void VisitReads(const proto::Node& node,
                const std::function<void(const std::string&)>& f) {
  for (const std::string& input : node.input()) f(input);
  for (const proto::Attribute& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const proto::Node& inner : attribute.g().node()) VisitReads(inner, f);
    for (const proto::ValueInfo& output : attribute.g().output()) {
      f(output.name());
    }
  }
}

// Nodes are in the order of a run, but for a few files; what a node reads that
// stands behind it is found in a further turn.
void DropUnneeded(proto::Graph* graph) {
  std::set<std::string> needed;
  for (const proto::ValueInfo& output : graph->output()) {
    needed.insert(output.name());
  }
  for (size_t before = 0; before != needed.size();) {
    before = needed.size();
    for (int i = graph->node_size(); i > 0; --i) {
      const proto::Node& node = graph->node(i - 1);
      if (!IsAnyNeeded(node, needed)) continue;
      VisitReads(node, [&](const std::string& value) { needed.insert(value); });
    }
  }
  auto* const nodes = graph->mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                              [&](const proto::Node& node) {
                                return !IsAnyNeeded(node, needed);
                              }),
               nodes->end());
}

}  // namespace

absl::StatusOr<UserModel> UserModel::Open(const std::string& path) {
  UserModel opened;
  opened.path_ = path;
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  opened.file_ = std::make_shared<const MappedFile>(std::move(file));
  NODEWISE_ASSIGN_OR_RETURN(const auto model,
                            ParseModel(opened.file_->bytes(), path));
  for (const proto::Node& node : model->graph().node()) {
    opened.made_.insert(node.output().begin(), node.output().end());
  }
  opened.made_.erase("");
  for (const proto::ValueInfo& output : model->graph().output()) {
    opened.outputs_.insert(output.name());
  }
  // A constant may be an output, which no node makes.
  opened.made_.insert(opened.outputs_.begin(), opened.outputs_.end());
  VisitTensors(model->graph(), [&](const proto::Tensor& tensor) {
    const auto location = ExternalLocation(tensor);
    if (location.has_value()) opened.external_.insert(*location);
  });
  return opened;
}

absl::StatusOr<std::string> UserModel::With(
    absl::Span<const Value> outputs, absl::Span<const Value> given) const {
  std::string bytes(file_->text());
  std::set<std::string> known = outputs_;
  if (!given.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(const auto model,
                              ParseModel(file_->bytes(), path_));
    for (const Value& value : given) {
      AssignConstant(value, FreeName(value.name), model->mutable_graph());
      known.erase(value.name);
    }
    bytes = model->SerializeAsString();
  }
  // Readers of protobuf join the parts of a message: the lists of a graph that
  // comes twice are one list.
  proto::Model more;
  for (const Value& value : outputs) {
    if (!known.insert(value.name).second) continue;
    WriteValue(value, more.mutable_graph()->add_output());
  }
  if (more.has_graph()) bytes += more.SerializeAsString();
  return bytes;
}

// This is for runtimes that hand out nothing but outputs and cannot be given
// more of them: each value that is asked for ends a shorter model.
absl::StatusOr<std::string> UserModel::EndingAt(
    absl::Span<const Value> outputs, absl::Span<const Value> given) const {
  NODEWISE_ASSIGN_OR_RETURN(const auto model,
                            ParseModel(file_->bytes(), path_));
  proto::Graph* const graph = model->mutable_graph();
  for (const Value& value : given)
    AssignConstant(value, FreeName(value.name), graph);
  const std::vector<proto::ValueInfo> before(graph->output().begin(),
                                             graph->output().end());
  graph->clear_output();
  for (const Value& value : outputs) {
    // What the file says of its own output stays as it is.
    const auto own =
        std::ranges::find(before, value.name, &proto::ValueInfo::name);
    if (own != before.end()) {
      *graph->add_output() = *own;
    } else {
      WriteValue(value, graph->add_output());
    }
  }
  DropUnneeded(graph);
  return model->SerializeAsString();
}

std::string UserModel::FreeName(const std::string& name) const {
  std::string free_name = name + "_before";
  while (made_.contains(free_name)) free_name += '_';
  return free_name;
}

}  // namespace nodewise

#include "contrib/repro/kept_parts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "contrib/repro/one_node.h"
#include "fmt/format.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/repro/anonymous.h"

namespace nodewise {
namespace {

// Zeros and ones that have been put in the place of numbers say nothing.
bool HasOtherThanZerosAndOnes(const NDArray& tensor) {
  const DLDataType dtype = tensor.dtype();
  const bool has_numbers = IsFloat(dtype) || IsInteger(dtype) || IsBool(dtype);
  if (!has_numbers) return true;
  const std::vector<double> numbers = ToDoubles(tensor);
  return std::any_of(numbers.begin(), numbers.end(),
                     [](double x) { return x != 0 && x != 1; });
}

class KeptLister {
 public:
  KeptLister(const ReproCase& node_case, const OpSet& operators)
      : case_(node_case), operators_(operators) {}

  std::vector<KeptPart> List() {
    Add("description", "",
        "element types and shapes, the kinds of the operators and their "
        "attributes, and the distribution of the numbers of each tensor");
    ListLibrary();
    for (const ReproInput& input : case_.inputs) ListTensor(input);
    for (const ReproInput& input : case_.earlier_inputs) ListTensor(input);
    ListNodes();
    if (case_.beside.has_value()) ListNetwork(case_.beside->model);
    return std::move(parts_);
  }

 private:
  // Nodes may compute the same, and a model beside one repeats its region.
  void Add(std::string kind, std::string name, std::string why) {
    if (!listed_.insert({kind, name}).second) return;
    parts_.push_back({std::move(kind), std::move(name), std::move(why)});
  }

  void ListLibrary() {
    if (case_.library_file.empty()) return;
    Add("library", "lib.so",
        "compiled code cannot be replaced: it holds the names of its "
        "functions, and constants, paths and other names as far as its "
        "compiler left them in it" +
            BesideTheCode());
    for (const GraphNode& node : case_.graph.nodes) {
      const bool is_called = node.kind == GraphNode::Kind::kFunction &&
                             node.function != kNopFunction &&
                             node.function != kCopyFunction;
      if (!is_called) continue;
      Add("function", node.function, "the library is called by that name");
    }
  }

  // WithBlankNetwork() says what of that is blank.
  std::string BesideTheCode() const {
    const auto summary = SummariseLibrary(case_.library_file);
    if (!summary.ok() || !summary->blob_status.ok()) {
      return "; what it holds beside its code is not understood";
    }
    std::string text;
    for (const ModuleSummary& module : summary->modules) {
      if (!module.graph_json.empty()) {
        text +=
            "; of the factory in it the number, types and shapes of the "
            "network's parameters are left";
      } else if (!module.tensors.empty()) {
        text += "; constants of its modules stay, with their names";
      }
    }
    if (summary->has_bytecode) {
      text +=
          "; its bytecode says what the whole network computes, with the types "
          "and shapes of its constants";
    }
    return text;
  }

  void ListTensor(const ReproInput& input) {
    if (input.is_simpler && !HasOtherThanZerosAndOnes(input.tensor)) return;
    if (input.is_drawn) {
      if (!input.why_places.empty())
        Add("places", input.name, input.why_places);
      return;
    }
    Add("tensor", input.name,
        fmt::format("its numbers are the network's{}: {}",
                    input.is_simpler ? ", some left out or rounded" : "",
                    input.why_not_drawn.empty() ? "nothing else was tried"
                                                : input.why_not_drawn));
  }

  void ListNodes() {
    for (uint32_t n = 0; n < case_.graph.nodes.size(); ++n) {
      if (!case_.graph.IsFunction(NodeId{n})) continue;
      const auto region = RegionOfNodeIn(case_.graph, NodeId{n}, operators_);
      if (region.ok()) ListNetwork(region->network);
    }
  }

  bool IsDrawn(const NDArray& constant) const {
    const std::vector<uint64_t>& drawn = case_.anonymity->drawn_constants;
    return std::find(drawn.begin(), drawn.end(),
                     HashBytes(constant.data(), constant.bytes())) !=
           drawn.end();
  }

  void ListNetwork(const Network& network) {
    for (const auto& value : network.data().values) {
      if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant ||
          IsDrawn(value->data)) {
        continue;
      }
      Add("constant", value->name,
          fmt::format("{}: its numbers are the network's",
                      ToString(value->type)));
    }
    for (const OperationId id : network.order()) {
      ListOperation(network.operation(id));
    }
  }

  void ListOperation(const Operation& operation) {
    if (const auto* const opaque = operation.attrs.As<ops::Opaque>()) {
      Add("operator", NameOf(*opaque),
          "an operator that is not known is kept with all that its "
          "attributes hold");
      return;
    }
    for (const NamedAttr& attr : NamedAttrsOf(operation.attrs)) {
      const auto* const body = std::get_if<Subgraph>(&attr.value);
      if (body != nullptr && body->body != nullptr) ListNetwork(*body->body);
      const auto* const words =
          std::get_if<std::vector<std::string>>(&attr.value);
      const auto* const numbers = std::get_if<std::vector<float>>(&attr.value);
      const bool has_data = std::holds_alternative<NDArray>(attr.value) ||
                            (words != nullptr && !words->empty()) ||
                            (numbers != nullptr && !numbers->empty());
      if (!has_data) continue;
      Add("attribute", fmt::format("{}.{}", operation.kind(), attr.name),
          "its value is the network's");
    }
  }

  const ReproCase& case_;
  const OpSet& operators_;
  std::set<std::pair<std::string, std::string>> listed_;
  std::vector<KeptPart> parts_;
};

}  // namespace

std::vector<KeptPart> KeptPartsOf(const ReproCase& node_case,
                                  const OpSet& operators) {
  return KeptLister(node_case, operators).List();
}

void WriteKept(const std::vector<KeptPart>& kept, JsonWriter* json) {
  json->BeginArray("kept");
  for (const KeptPart& part : kept) {
    json->BeginObject();
    json->Add("kind", part.kind);
    json->Add("name", part.name);
    json->Add("why", part.why);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace nodewise

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/locate_builds.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/target_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedOperations = 3;
// Between more operations than these one knows little of where a node is.
constexpr size_t kMostBetween = 6;
constexpr std::string_view kUnknownOrder = "order not explained";

class AlignWithModel : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &load_.target);
    options->AddPositional("MODEL",
                           "the ONNX model that it was compiled from, or "
                           "another build of that",
                           &model_);
    AddDeviceOption(options, &load_.target);
    AddInputOptions(options, &inputs_);
    AddSetsOption(options, &sets_);
    AddModelOptions(options, &load_.model);
    AddOpaqueOption(options, &load_.model);
    options->AddFlag("--all", "every line of lists that are cut otherwise",
                     &all_);
  }

  absl::StatusOr<Outcome> Run() override {
    Outcome outcome;
    LoadOptions load = load_;
    load.model = ModelOptions();
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                              LoadTarget(load, inputs_, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget model,
                              Model(loaded, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    ShowTarget(loaded, inputs_, &outcome);
    ShowPairs(model, &outcome);
    ShowOpaque(model.opaque, &outcome);
    KeepFreedMemory();
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<RecordedPair> pairs,
                              RecordBoth(loaded, model,
                                         {sets_.value_or(kInputSets),
                                          inputs_.seed.value_or(1), false}));
    const GraphIndex& index = loaded.target->index();
    NODEWISE_ASSIGN_OR_RETURN(const Alignment alignment,
                              Align(index, *model.network, pairs));
    Show(alignment, index, *model.network, &outcome);
    return outcome;
  }

 private:
  absl::StatusOr<ModelOfTarget> Model(const Session& loaded,
                                      Outcome* outcome) const {
    if (IsModel(model_)) {
      return LoadModelOf(loaded, model_, load_.model, outcome);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const Session build,
        LoadBuild("MODEL", model_, load_, inputs_, outcome));
    if (outcome->status != Outcome::Status::kOk) return ModelOfTarget();
    return BuildAsModel(loaded, build);
  }

  static std::vector<std::string> NamesOf(const AlignedEntry& entry,
                                          const Network& network) {
    std::vector<std::string> names;
    for (const EntryMatch& match : entry.matches) {
      const NetworkValue& value = network.value(match.value);
      names.push_back(value.name);
      if (!match.without_input.has_value()) continue;
      const OperatorDef& def = network.operation(value.producer).attrs.def();
      names.back() +=
          fmt::format(" without {}", def.inputs[*match.without_input].name);
    }
    return names;
  }

  static std::string InsideOf(const AlignedEntry& entry,
                              const Network& network) {
    if (entry.between.empty()) return "-";
    return fmt::format("- (inside of {})",
                       ListOf(OperationsIn(entry, network), kNamedOperations));
  }

  static std::vector<std::string> OperationsIn(const AlignedEntry& entry,
                                               const Network& network) {
    std::vector<std::string> names;
    for (const OperationId id : entry.between) {
      names.push_back(network.operation(id).name);
    }
    return names;
  }

  static std::string LayoutOf(const EntryMatch& match) {
    return match.has_unknown_order ? std::string(kUnknownOrder)
                                   : match.layout.text;
  }

  void Show(const Alignment& alignment, const GraphIndex& index,
            const Network& network, Outcome* outcome) const {
    const Graph& graph = index.graph();
    TextTable table;
    table.AddRow(
        {"Entry", "Shape", "Tensor of the model", "Distance", "Layout"});
    outcome->json.BeginArray("entries");
    for (const AlignedEntry& entry : alignment.entries) {
      if (!entry.varies || !graph.IsFunction(index.NodeOf(entry.entry))) {
        continue;
      }
      const std::string key = index.KeyOf(entry.entry);
      const std::vector<std::string> names = NamesOf(entry, network);
      AddJson(entry, key, names, OperationsIn(entry, network), &outcome->json);
      const bool is_matched = !entry.matches.empty();
      table.AddRow(
          {key,
           fmt::format("({})", fmt::join(graph.entry(entry.entry).shape, ", ")),
           is_matched ? fmt::format("{}", fmt::join(names, ", "))
                      : InsideOf(entry, network),
           is_matched ? fmt::format("{:.2g}", entry.matches[0].distance) : "",
           is_matched ? LayoutOf(entry.matches[0]) : ""});
    }
    outcome->json.EndArray();
    const size_t nodes = alignment.CountVarying(graph);
    const size_t matched = alignment.CountMatched(index);
    outcome->json.Add("nodes", static_cast<uint64_t>(nodes));
    outcome->json.Add("matched", static_cast<uint64_t>(matched));
    const size_t between = alignment.CountBetween(index, kMostBetween);
    outcome->json.Add("between", static_cast<uint64_t>(between));
    outcome->text += "\n" + table.ToString(0, all_ ? 0 : kShownLines + 1);
    outcome->text += fmt::format(
        "\n{} of {} that depend on inputs hold a tensor of the model\n",
        matched, CountOf(nodes, "node"));
    if (between > 0) {
      outcome->text += fmt::format(
          "{} more {} between those, with {} operations of the model at most\n",
          between, between == 1 ? "is" : "are", kMostBetween);
    }
  }

  static void AddJson(const AlignedEntry& entry, const std::string& key,
                      const std::vector<std::string>& names,
                      const std::vector<std::string>& between,
                      JsonWriter* json) {
    json->BeginObject();
    json->Add("entry", key);
    json->Add("tensors", names);
    if (entry.matches.empty()) json->Add("inside_of", between);
    if (!entry.matches.empty()) {
      json->Add("distance", entry.matches[0].distance);
      json->Add("layout", LayoutOf(entry.matches[0]));
      json->Add("order_is_known", !entry.matches[0].has_unknown_order);
    }
    json->EndObject();
  }

  LoadOptions load_;
  InputOptions inputs_;
  std::string model_;
  std::optional<uint64_t> sets_;
  bool all_ = false;
};

}  // namespace

const CommandRow kAlignCommand = {
    "align",
    "shows which tensor of its model each node of an artefact makes",
    "examples:\n"
    "  nodewise align build/net model.onnx --random-inputs 1\n"
    "  nodewise align net.so model.onnx --inputs all.npz --json\n"
    "  nodewise align new.so old.so --random-inputs 1\n"
    "\nBoth are run and what they make is matched by its values, so that names "
    "and\nfusion do not matter. Layouts that compilers use are undone.\n"
    "\nExit status: 0 if it could be done, 2 if not.\n",
    [] { return std::unique_ptr<Command>(new AlignWithModel); },
    /*missing=*/nullptr,
    /*runs_code=*/true};

}  // namespace nodewise

#include "contrib/repro/repro_texts.h"

#include <algorithm>

#include "contrib/repro/repro_names.h"
#include "fmt/format.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string WorstText(const ReproOutput& output) {
  const TensorComparison& comparison = *output.comparison;
  if (comparison.is_equal()) return "";
  const ElementDifference& worst = comparison.Worst();
  return fmt::format("element {}: found {:.9g}, expected {:.9g}", worst.element,
                     worst.actual, worst.expected);
}

// Says what the node was found to be in its network.
std::string AccusationText(const ReproCase& node_case) {
  if (node_case.verdict.empty()) return "";
  return fmt::format("In its network it was found to be `{}`{}.\n\n",
                     CodeSpan(node_case.verdict),
                     node_case.reason.empty()
                         ? ""
                         : fmt::format(": `{}`", CodeSpan(node_case.reason)));
}

// Describes a node that writes over a tensor.
std::string PlanFaultText(const ReproCase& node_case) {
  const SpoiledTensor& spoiled = *node_case.plan_fault;
  std::string text = fmt::format(
      "It writes over `{}`, which `{}` still reads: the storage plan gives "
      "both one place\nin memory. In `graph.json` are these nodes alone, and "
      "that place. The command names\nthe node as a plan fault with exit "
      "status 1. Once tensors that are needed at the\nsame time have places "
      "of their own, the exit status is 0.\n",
      CodeSpan(spoiled.tensor), CodeSpan(spoiled.reader));
  const ReproOutput* const wrong = node_case.FindWrong();
  if (wrong != nullptr) {
    text += fmt::format("\n- output `{}`: `{}`\n- `{}`\n", wrong->role,
                        CodeSpan(wrong->comparison->judgement.reason),
                        CodeSpan(WorstText(*wrong)));
  }
  return text;
}

// Says what is needed beside the node.
std::string EarlierText(const ReproCase& node_case) {
  if (node_case.earlier_nodes.empty()) return "";
  return fmt::format(
      "\nAlone it does not fail: it needs what functions before it leave in "
      "variables of the\nlibrary. So there {} before it: `{}`.\n",
      node_case.earlier_nodes.size() == 1
          ? "is a node of the network"
          : fmt::format("are {} nodes of the network",
                        node_case.earlier_nodes.size()),
      CodeSpan(ListOf(node_case.earlier_nodes)));
}

// Describes the part of a model that stands beside a node.
std::string BesideText(const ReproCase& node_case) {
  if (!node_case.beside.has_value()) return "";
  std::string text =
      "\nThe node does not say what it computes. `model.onnx` does: the part "
      "of "
      "the model that\nit stands for, with what it reads in the order in which "
      "it lies there.\n";
  if (!node_case.beside->other_nodes.empty()) {
    text += fmt::format(
        "\nThe compiler took an operation apart, so that what is before the "
        "node is there, too: `{}`.\n",
        CodeSpan(ListOf(node_case.beside->other_nodes)));
  }
  return text;
}

std::string RightText(const ReproCase& node_case) {
  if (node_case.harms_others) {
    return "What it makes is right. What it leaves behind is not, and the "
           "command names it with\nexit status 1. Once it is repaired, the "
           "exit "
           "status is 0.\n";
  }
  if (!node_case.verdict.empty()) {
    return "Alone it was right when this was written: the failure does not "
           "show in every\nrun, or it needs the network. With exit status 1 "
           "the command names the node.\n";
  }
  return "It was right when this was written: the command says so with exit\n"
         "status 0. With exit status 1 it names the node, which is wrong "
         "then.\n";
}

// Describes a node that ends its process, or spoils memory.
std::string FailureText(const ReproCase& node_case) {
  if (node_case.fails_alone == false) {
    return "Alone it came to its end when this was written: the failure does "
           "not show in\nevery run, or it needs the network. With exit status "
           "1 the command names the node.\n";
  }
  return "The command runs it in a process of its own and names it with exit "
         "status 1. Once\nit is repaired, the exit status is 0.\n";
}

bool HasParams(const ReproCase& node_case) {
  const auto is_param = [](const ReproInput& input) { return input.is_param; };
  return std::any_of(node_case.inputs.begin(), node_case.inputs.end(),
                     is_param) ||
         std::any_of(node_case.earlier_inputs.begin(),
                     node_case.earlier_inputs.end(), is_param);
}

// A compiler writes its mistakes into code or into constants.
std::string WhatToReplace(const ReproCase& node_case) {
  if (node_case.library_file.empty()) return "";
  return HasParams(node_case)
             ? ": put a new `lib.so`,\nor new `params.params`, in their place"
             : ": put a new `lib.so` in its\nplace";
}

std::string StateText(const ReproCase& node_case) {
  if (node_case.plan_fault.has_value()) return PlanFaultText(node_case);
  if (node_case.failure.has_value()) return FailureText(node_case);
  if (!node_case.may_run) {
    return "It has not been run alone. Once it is repaired, the exit status is "
           "0.\n";
  }
  if (!node_case.region.has_value()) {
    return fmt::format(
        "Whether it is right is not known: `{}`.\nThe command runs it, with "
        "exit status 0.\n",
        CodeSpan(node_case.why_no_region));
  }
  const ReproOutput* const wrong = node_case.FindWrong();
  if (wrong == nullptr) return RightText(node_case);
  return fmt::format(
      "It is wrong: the command names the node with exit status 1. Once it is\n"
      "repaired, the exit status is 0{}.\n\n"
      "- output `{}`: `{}`\n- `{}`\n",
      WhatToReplace(node_case), wrong->role,
      CodeSpan(wrong->comparison->judgement.reason),
      CodeSpan(WorstText(*wrong)));
}

std::string ShrinkText(const ReproCase& node_case) {
  if (!node_case.is_shrunk()) return "";
  return fmt::format(
      "\nThe inputs are simpler than those that the network gave the node, "
      "and\n"
      "the failure is the same: found in {}.{}\n",
      CountOf(node_case.shrink_runs, "run"),
      node_case.anonymity.has_value()
          ? ""
          : " What the network gave is in\n`data/original.params`.");
}

// What strangers learn of the network.
std::string KeptText(const ReproCase& node_case) {
  if (!node_case.anonymity.has_value()) return "";
  std::string text =
      "\nThis folder was made to be given away: names are replaced, and "
      "weights and inputs\nare drawn numbers wherever the failure survives "
      "that. Still of the network:\n\n";
  for (const KeptPart& part : node_case.anonymity->kept) {
    text += "- " + part.kind;
    if (!part.name.empty()) text += fmt::format(" `{}`", CodeSpan(part.name));
    text += fmt::format(": {}\n", CodeSpan(part.why));
  }
  return text;
}

bool IsJudged(const ReproCase& node_case) {
  return node_case.is_judged() && node_case.may_run;
}

bool HasSeveralNodes(const ReproCase& node_case) {
  const bool is_taken_apart =
      node_case.beside.has_value() && !node_case.beside->other_nodes.empty();
  return is_taken_apart || node_case.plan_fault.has_value() ||
         !node_case.earlier_nodes.empty();
}

std::string FilesText(const ReproCase& node_case,
                      const ReproContents& contents) {
  const bool is_built_in = node_case.library_file.empty();
  std::string text =
      "\n| file | what is in it |\n|---|---|\n"
      "| `graph.json` | the ";
  text += HasSeveralNodes(node_case) ? "nodes as a graph |\n"
                                     : "node as a graph |\n";
  if (HasParams(node_case)) {
    text += "| `params.params` | the parameters that it reads |\n";
  }
  if (!is_built_in) text += "| `lib.so` | the library with its function |\n";
  if (contents.why_no_model.empty()) {
    text +=
        "| `model.onnx`, `test_data_set_0/` | the same as an ONNX model, with "
        "the inputs and what it should make |\n";
  }
  text += HasSeveralNodes(node_case)
              ? "| `data/inputs.params` | what the nodes read |\n"
              : "| `data/inputs.params` | what the node reads |\n";
  if (node_case.is_judged()) {
    text +=
        "| `data/reference.params` | what it should make |\n"
        "| `data/limits.params` | by element how far a correct kernel may be "
        "off |\n";
  }
  if (node_case.may_run) {
    text += "| `data/candidate.params` | what it made |\n";
  }
  if (contents.why_no_npz.empty()) {
    text += "| `data/tensors.npz` | all of these, for numpy |\n";
  }
  if (contents.has_program) {
    text += "| `main.cc`, `CMakeLists.txt` | a program that shows it, too |\n";
  }
  text += "| `repro.json` | all of this for programs |\n";
  if (!contents.why_no_model.empty()) {
    text += fmt::format("\nThere is no ONNX model: `{}`.\n",
                        CodeSpan(contents.why_no_model));
  }
  return text;
}

// Whether it reads anything else than parameters.
bool HasInputs(const ReproCase& node_case) {
  const auto is_input = [](const ReproInput& input) { return !input.is_param; };
  return std::any_of(node_case.inputs.begin(), node_case.inputs.end(),
                     is_input) ||
         std::any_of(node_case.earlier_inputs.begin(),
                     node_case.earlier_inputs.end(), is_input);
}

std::string MoreCommands(const ReproCase& node_case,
                         const ReproContents& contents) {
  std::string text;
  if (IsJudged(node_case)) {
    text =
        "\nTo see what it made beside what it should make:\n\n"
        "    nodewise compare data/reference.params data/candidate.params "
        "--map data/names.txt\n";
  }
  if (node_case.may_run && !node_case.failure.has_value()) {
    text += fmt::format(
        "\nTo see how long it takes:\n\n"
        "    nodewise profile .{} --runs 1000 --threads 1\n",
        HasInputs(node_case) ? " --inputs data/inputs.params" : "");
  }
  if (contents.has_program) {
    text +=
        "\nThe same in C++, with the same exit status:\n\n"
        "    cmake -S . -B build -DCMAKE_PREFIX_PATH=WHERE_NODEWISE_IS && "
        "cmake --build build && build/repro .\n";
    if (node_case.failure.has_value()) {
      text += "\nThis program runs the node in its own process.\n";
    }
  }
  return text;
}

std::vector<std::string> OperatorsOf(const ReproCase& node_case) {
  std::vector<std::string> kinds;
  if (!node_case.region.has_value()) return kinds;
  for (const OperationId id : SourceOperations(*node_case.region)) {
    kinds.emplace_back(node_case.region->network.operation(id).kind());
  }
  return kinds;
}

void AddTensor(std::string_view name, std::string_view role,
               const GraphEntry& entry, JsonWriter* json) {
  json->Add("name", name);
  json->Add("role", role);
  json->Add("dtype", ToString(entry.dtype));
  json->Add("shape", absl::MakeConstSpan(entry.shape));
}

void AddOutput(const ReproCase& node_case, size_t slot, JsonWriter* json) {
  const ReproOutput& output = node_case.outputs[slot];
  json->BeginObject();
  AddTensor(fmt::format("out_{}_{}", output.role, node_case.layer), output.role,
            node_case.graph.entry(
                node_case.graph.EntryOf(node_case.graph.heads[slot])),
            json);
  json->Add("wrong", output.is_wrong());
  if (output.comparison.has_value()) {
    const TensorComparison& comparison = *output.comparison;
    json->Add("verdict", NameOf(comparison.verdict()));
    json->Add("reason", comparison.judgement.reason);
    std::vector<std::string> patterns;
    if (comparison.details.has_value()) {
      for (const FailurePattern& found : comparison.details->patterns) {
        patterns.emplace_back(NameOf(found.shape));
      }
    }
    json->Add("patterns", patterns);
  }
  json->EndObject();
}

}  // namespace

std::string ReproCommand(const ReproCase& node_case) {
  // The limit decides what hangs.
  const bool hangs = node_case.failure.has_value() &&
                     node_case.failure->kind == NodeFailure::Kind::kHang;
  const std::string limit =
      hangs ? fmt::format(" --node-timeout {}", node_case.node_limit_ms / 1000)
            : "";
  return fmt::format(
      "nodewise {} .{}{}{}", node_case.is_judged() ? "locate" : "run",
      node_case.beside.has_value() ? " --reference model.onnx" : "",
      HasInputs(node_case) ? " --inputs data/inputs.params" : "", limit);
}

std::string ReproReadme(const ReproCase& node_case,
                        const ReproContents& contents) {
  std::string text = fmt::format(
      "# {} of a network: `{}`\n\n",
      HasSeveralNodes(node_case) ? "A node and what it needs" : "One node",
      CodeSpan(node_case.node));
  const std::vector<std::string> kinds = OperatorsOf(node_case);
  if (!kinds.empty()) {
    text += fmt::format("It computes `{}`.\n\n", CodeSpan(ListOf(kinds)));
  }
  text += fmt::format("In this folder, wherever it lies:\n\n    {}\n\n",
                      ReproCommand(node_case));
  if (!node_case.library_file.empty()) {
    text +=
        "**`lib.so` is compiled code, and the command runs it.** Run it only "
        "if you trust\nwhere this folder is from.\n\n";
  }
  text += AccusationText(node_case) + StateText(node_case);
  text += BesideText(node_case) + EarlierText(node_case);
  text += ShrinkText(node_case) + KeptText(node_case);
  text += MoreCommands(node_case, contents);
  return text + FilesText(node_case, contents);
}

std::string ReproDocument(const ReproCase& node_case,
                          const ReproContents& contents) {
  JsonWriter json;
  json.Add("schema", "nodewise.repro.1");
  json.Add("node", node_case.node);
  json.Add("operators", OperatorsOf(node_case));
  json.Add("command", ReproCommand(node_case));
  json.Add("compiled", !node_case.library_file.empty());
  json.Add("verdict", node_case.verdict);
  json.Add("reason", node_case.reason);
  json.Add("judged", IsJudged(node_case));
  json.Add("wrong", node_case.FindWrong() != nullptr);
  if (node_case.failure.has_value()) {
    json.Add("failure", NameOf(node_case.failure->kind));
    json.Add("failure_reason", node_case.failure->what);
    if (node_case.fails_alone.has_value()) {
      json.Add("fails_alone", *node_case.fails_alone);
    }
  }
  if (!node_case.earlier_nodes.empty()) {
    json.Add("earlier_nodes", node_case.earlier_nodes);
  }
  if (node_case.beside.has_value()) {
    json.Add("other_nodes", node_case.beside->other_nodes);
  }
  if (node_case.plan_fault.has_value()) {
    json.Add("victim", node_case.plan_fault->tensor);
    json.Add("reader", node_case.plan_fault->reader);
  }
  json.Add("shrunk", node_case.is_shrunk());
  json.Add("shrink_runs", node_case.shrink_runs);
  json.Add("model", contents.why_no_model.empty());
  if (node_case.anonymity.has_value()) {
    json.Add("draw_runs", node_case.anonymity->runs);
    WriteKept(node_case.anonymity->kept, &json);
  }
  json.BeginArray("inputs");
  for (size_t slot = 0; slot < node_case.inputs.size(); ++slot) {
    const ReproInput& input = node_case.inputs[slot];
    json.BeginObject();
    AddTensor(input.name, input.role, node_case.graph.entries[slot], &json);
    json.Add("parameter", input.is_param);
    json.Add("shrunk", input.original.defined() || input.is_simpler);
    if (node_case.anonymity.has_value()) json.Add("drawn", input.is_drawn);
    json.EndObject();
  }
  json.EndArray();
  json.BeginArray("outputs");
  for (size_t slot = 0; slot < node_case.outputs.size(); ++slot) {
    AddOutput(node_case, slot, &json);
  }
  json.EndArray();
  return json.Document();
}

}  // namespace nodewise

#include "contrib/repro/repro_texts.h"

#include <utility>
#include <vector>

#include "contrib/repro/node_trial.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Nine digits tell any two floats apart.
std::string WorstText(const ReproOutput& output) {
  const TensorComparison& comparison = *output.comparison;
  if (comparison.is_equal()) return "";
  const ElementDifference& worst = comparison.Worst();
  return fmt::format("element {}: found {:.9g}, expected {:.9g}", worst.element,
                     worst.actual, worst.expected);
}

// Says what the node was found to be in its network. The code spans keep names
// and messages, which come from files, from being read as Markdown.
std::string RecordedVerdictText(const ReproCase& node_case) {
  if (node_case.verdict.empty()) return "";
  return fmt::format("In its network it was found to be `{}`{}.\n\n",
                     CodeSpan(node_case.verdict),
                     node_case.reason.empty()
                         ? ""
                         : fmt::format(": `{}`", CodeSpan(node_case.reason)));
}

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

std::string EarlierNodesText(const ReproCase& node_case) {
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

std::string ModelPartText(const ReproCase& node_case) {
  if (!node_case.beside) return "";
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

std::string CorrectResultText(const ReproCase& node_case) {
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

// Describes a node that ends its process, or spoils memory. A failure that was
// not tried alone is described like one that shows.
std::string FailureText(const ReproCase& node_case) {
  if (node_case.fails_alone == false) {
    return "Alone it came to its end when this was written: the failure does "
           "not show in\nevery run, or it needs the network. With exit status "
           "1 the command names the node.\n";
  }
  return "The command runs it in a process of its own and names it with exit "
         "status 1. Once\nit is repaired, the exit status is 0.\n";
}

// Returns whether the nodes read a parameter or, without `params`, anything
// else.
bool Reads(const ReproCase& node_case, bool params) {
  const auto is_meant = [params](const ReproInput& input) {
    return input.is_param == params;
  };
  return std::ranges::any_of(node_case.inputs, is_meant) ||
         std::ranges::any_of(node_case.earlier_inputs, is_meant);
}
bool HasParams(const ReproCase& node_case) { return Reads(node_case, true); }
bool HasInputs(const ReproCase& node_case) { return Reads(node_case, false); }

// A compiler writes its mistakes into code or into constants.
std::string ReplacementHint(const ReproCase& node_case) {
  if (node_case.library_file.empty()) return "";
  return HasParams(node_case)
             ? ": put a new `lib.so`,\nor new `params.params`, in their place"
             : ": put a new `lib.so` in its\nplace";
}

// The first case that applies decides: a plan fault, a node that ends its
// process, a node that was not run, one that cannot be judged, and one that
// was.
std::string StateText(const ReproCase& node_case) {
  if (node_case.plan_fault) return PlanFaultText(node_case);
  if (node_case.failure) return FailureText(node_case);
  if (!node_case.may_run) {
    return "It has not been run alone. Once it is repaired, the exit status is "
           "0.\n";
  }
  if (!node_case.region) {
    return fmt::format(
        "Whether it is right is not known: `{}`.\nThe command runs it, with "
        "exit status 0.\n",
        CodeSpan(node_case.why_no_region));
  }
  const ReproOutput* const wrong = node_case.FindWrong();
  if (wrong == nullptr) return CorrectResultText(node_case);
  return fmt::format(
      "It is wrong: the command names the node with exit status 1. Once it is\n"
      "repaired, the exit status is 0{}.\n\n"
      "- output `{}`: `{}`\n- `{}`\n",
      ReplacementHint(node_case), wrong->role,
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
      node_case.anonymity
          ? ""
          : " What the network gave is in\n`data/original.params`.");
}

// Lists all that strangers learn of the network.
std::string DisclosedFactsText(const ReproCase& node_case) {
  if (!node_case.anonymity) return "";
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

// A reference alone judges nothing: the node must have run as well.
bool IsJudged(const ReproCase& node_case) {
  return node_case.is_judged() && node_case.may_run;
}

// The words "node" and "nodes" depend on this.
bool HasSeveralNodes(const ReproCase& node_case) {
  const bool is_taken_apart =
      node_case.beside && !node_case.beside->other_nodes.empty();
  return is_taken_apart || node_case.plan_fault ||
         !node_case.earlier_nodes.empty();
}

std::string FilesText(const ReproCase& node_case,
                      const ReproContents& contents) {
  const bool are_several = HasSeveralNodes(node_case);
  const char* const nodes = are_several ? "nodes" : "node";
  const struct {
    bool is_there;
    std::string line;
  } files[] = {
      {true, fmt::format("`graph.json` | the {} as a graph", nodes)},
      {HasParams(node_case), "`params.params` | the parameters that it reads"},
      {!node_case.library_file.empty(),
       "`lib.so` | the library with its function"},
      {contents.why_no_model.empty(),
       "`model.onnx`, `test_data_set_0/` | the same as an ONNX model, with the "
       "inputs and what it should make"},
      {true, fmt::format("`data/inputs.params` | what the {} read{}", nodes,
                         are_several ? "" : "s")},
      {node_case.is_judged(), "`data/reference.params` | what it should make"},
      {node_case.is_judged(),
       "`data/limits.params` | by element how far a correct kernel may be off"},
      {node_case.may_run, "`data/candidate.params` | what it made"},
      {contents.why_no_npz.empty(),
       "`data/tensors.npz` | all of these, for numpy"},
      {contents.has_program,
       "`main.cc`, `CMakeLists.txt` | a program that shows it, too"},
      {true, "`repro.json` | all of this for programs"},
  };
  std::string text = "\n| file | what is in it |\n|---|---|\n";
  for (const auto& file : files) {
    if (file.is_there) text += fmt::format("| {} |\n", file.line);
  }
  if (!contents.why_no_model.empty()) {
    text += fmt::format("\nThere is no ONNX model: `{}`.\n",
                        CodeSpan(contents.why_no_model));
  }
  return text;
}

// A node that crashes or hangs cannot be timed, and one without a reference has
// nothing to be compared with.
std::string MoreCommands(const ReproCase& node_case,
                         const ReproContents& contents) {
  std::string text;
  if (IsJudged(node_case)) {
    text =
        "\nTo see what it made beside what it should make:\n\n"
        "    nodewise compare data/reference.params data/candidate.params "
        "--map data/names.txt\n";
  }
  if (node_case.may_run && !node_case.failure) {
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
    if (node_case.failure) {
      text += "\nThis program runs the node in its own process.\n";
    }
  }
  return text;
}

// Operations that a compiler added to change layouts are left out.
std::vector<std::string> OperatorsOf(const ReproCase& node_case) {
  std::vector<std::string> kinds;
  if (!node_case.region) return kinds;
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

// The names of patterns are stable, their words are not, so that documents have
// the names.
void AddOutput(const ReproCase& node_case, size_t slot, JsonWriter* json) {
  const ReproOutput& output = node_case.outputs[slot];
  json->BeginObject();
  AddTensor(fmt::format("out_{}_{}", output.role, node_case.layer), output.role,
            node_case.graph.entry(
                node_case.graph.EntryOf(node_case.graph.heads[slot])),
            json);
  json->Add("wrong", output.is_wrong());
  if (output.comparison) {
    const TensorComparison& comparison = *output.comparison;
    json->Add("verdict", NameOf(comparison.verdict()));
    json->Add("reason", comparison.judgement.reason);
    std::vector<std::string> patterns;
    if (comparison.details) {
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
  const std::string limit =
      Hangs(node_case)
          ? fmt::format(" --node-timeout {}", node_case.node_limit_ms / 1000)
          : "";
  return fmt::format(
      "nodewise {} .{}{}{}", node_case.is_judged() ? "locate" : "run",
      node_case.beside ? " --reference model.onnx" : "",
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
  text += RecordedVerdictText(node_case) + StateText(node_case);
  text += ModelPartText(node_case) + EarlierNodesText(node_case);
  text += ShrinkText(node_case) + DisclosedFactsText(node_case);
  text += MoreCommands(node_case, contents);
  return text + FilesText(node_case, contents);
}

// docs/formats/repro.md lists the members.
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
  if (node_case.failure) {
    json.Add("failure", NameOf(node_case.failure->kind));
    json.Add("failure_reason", node_case.failure->what);
    if (node_case.fails_alone.has_value()) {
      json.Add("fails_alone", *node_case.fails_alone);
    }
  }
  if (!node_case.earlier_nodes.empty()) {
    json.Add("earlier_nodes", node_case.earlier_nodes);
  }
  if (node_case.beside) json.Add("other_nodes", node_case.beside->other_nodes);
  if (node_case.plan_fault) {
    json.Add("victim", node_case.plan_fault->tensor);
    json.Add("reader", node_case.plan_fault->reader);
  }
  json.Add("shrunk", node_case.is_shrunk());
  json.Add("shrink_runs", node_case.shrink_runs);
  json.Add("model", contents.why_no_model.empty());
  if (node_case.anonymity) {
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
    if (node_case.anonymity) json.Add("drawn", input.is_drawn);
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

// It is compiled where only what is installed is there: the public headers of
// the runtime. The delimiter is one of which clang-format leaves the text as
// it stands.
std::string_view ReproProgram() {
  return R"program(// Runs the node of this folder and compares what it makes with what it should
// make. Exit status: 0 it is right, 1 it is wrong, 2 it could not be run.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "nodewise/artefact/artefact.h"
#include "nodewise/ndarray/elements.h"

namespace {

using nodewise::NDArray;

int Fail(const std::string& what, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(),
               std::string(status.message()).c_str());
  return 2;
}

bool IsRight(double found, double expected, double limit) {
  if (found == expected) return true;
  if (std::isnan(found) || std::isnan(expected)) {
    return std::isnan(found) && std::isnan(expected);
  }
  return std::fabs(found - expected) <= limit;
}

// Counts the elements that are further off than they may be, and shows the
// first of them.
size_t CountWrong(size_t output, const NDArray& found, const NDArray& expected,
                  const NDArray& limits) {
  const size_t count = limits.bytes() / sizeof(double);
  std::vector<double> a(count), b(count), most(count);
  std::memcpy(most.data(), limits.data(), limits.bytes());
  const bool are_numbers =
      nodewise::DecodeToDoubles(found.dtype(), found.data(), count, a.data()) &&
      nodewise::DecodeToDoubles(expected.dtype(), expected.data(), count,
                                b.data());
  if (!are_numbers ||
      (found.dtype().code != kDLFloat && found.dtype().bits == 64)) {
    // Doubles do not hold all of these numbers; their bytes say enough.
    return std::memcmp(found.data(), expected.data(), found.bytes()) != 0;
  }
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (IsRight(a[i], b[i], most[i])) continue;
    if (wrong++ > 0) continue;
    std::printf(
        "output %zu, element %zu: found %.9g, expected %.9g, "
        "which may be off by %.3g\n",
        output, i, a[i], b[i], most[i]);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const auto files = nodewise::FindArtefact(folder);
  if (!files.ok()) return Fail(folder, files.status());
  auto executor = nodewise::CreateExecutor(*files, {});
  if (!executor.ok()) return Fail(folder, executor.status());
  const auto inputs = nodewise::OpenParams(folder + "/data/inputs.params");
  if (!inputs.ok()) return Fail("inputs", inputs.status());
  for (const auto& [name, tensor] : inputs->tensors) {
    const absl::Status status = (*executor)->SetInput(name, *tensor);
    if (!status.ok()) return Fail("inputs", status);
  }
  const auto expected = nodewise::OpenParams(folder + "/data/reference.params");
  if (!expected.ok()) return Fail("reference", expected.status());
  const auto limits = nodewise::OpenParams(folder + "/data/limits.params");
  if (!limits.ok()) return Fail("limits", limits.status());
  const absl::Status run = (*executor)->Run();
  if (!run.ok()) return Fail("run", run);
  size_t wrong = 0;
  for (size_t i = 0; i < (*executor)->NumOutputs(); ++i) {
    const auto found = (*executor)->GetOutput(i);
    if (!found.ok()) return Fail("output", found.status());
    if (i >= expected->tensors.size() || i >= limits->tensors.size()) return 2;
    const NDArray& reference = expected->tensors[i].tensor;
    const NDArray& most = limits->tensors[i].tensor;
    if (found->bytes() != reference.bytes()) return 2;
    wrong += CountWrong(i, *found, reference, most);
  }
  std::printf("%zu elements are wrong\n", wrong);
  return wrong > 0 ? 1 : 0;
}
)program";
}

std::string_view ReproCMakeLists() {
  return R"(cmake_minimum_required(VERSION 3.25)
project(repro LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(nodewise REQUIRED)
add_executable(repro main.cc)
target_link_libraries(repro PRIVATE nodewise::runtime)
)";
}

}  // namespace nodewise

#include "apps/network-debugger/flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// What was found comes from a command line, and may hold any bytes.
absl::Status BadValue(std::string_view found, std::string_view expected) {
  return InvalidArgument("found \"{}\", expected {}", Printable(found),
                         expected);
}

// Glow's classes are called IntermediateLayerComparator and
// RecursiveLayerComparator; either ending may be left out, and letters may be
// small.
absl::Status SetComparator(const std::string& found, DebuggerFlags* flags) {
  std::string value = found;
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view suffix : {"comparator", "layer"}) {
    // The longer ending comes off first: "recursivelayercomparator".
    if (value.ends_with(suffix)) value.resize(value.size() - suffix.size());
  }
  if (value != "intermediate" && value != "recursive") {
    return BadValue(found, "Intermediate or Recursive");
  }
  flags->is_recursive = value == "recursive";
  return absl::OkStatus();
}

absl::Status SetThreshold(const std::string& value, DebuggerFlags* flags) {
  double* const threshold = &flags->threshold;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, *threshold);
  const bool is_number = error == std::errc() && stop == end;
  if (is_number && std::isfinite(*threshold) && *threshold >= 0) {
    return absl::OkStatus();
  }
  return BadValue(value, "a number from 0, as in 1e-5");
}

// Where the value of a flag goes; a function reads what is not plain text.
using FlagPlace =
    std::variant<bool DebuggerFlags::*, std::string DebuggerFlags::*,
                 std::vector<std::string> DebuggerFlags::*,
                 absl::Status (*)(const std::string&, DebuggerFlags*)>;

// A flag that sets a bool is a switch, which may stand without a value.
struct FlagRow {
  const char* name;
  const char* value;  // What stands for it in the help; null for a switch.
  const char* help;
  FlagPlace place;
};

// Names that begin with "glow_" are those of Glow's own command line.
constexpr FlagRow kFlags[] = {
    {"model", "FILE", "the ONNX model, or a .zip file that holds it (needed)",
     &DebuggerFlags::model},
    {"inputs", "FILE",
     "sample inputs: a TensorProto, a graph with initializers, .npz, .npy or "
     ".params; may be given again (needed)",
     &DebuggerFlags::inputs},
    {"input", "FILE", "the same as -inputs", &DebuggerFlags::inputs},
    {"backend", "NAME",
     "what is tested: Interpreter, also called reference; OneDNN, also called "
     "CPU; c, the C that is emitted; ort, onnxruntime; onnx, the evaluator of "
     "ONNX's package; exec:COMMAND, any program (Interpreter)",
     &DebuggerFlags::backend},
    {"comparator", "NAME",
     "Intermediate: all layers at once; Recursive: one after the other, in "
     "little memory (Intermediate)",
     &SetComparator},
    {"threshold", "NUMBER",
     "the largest absolute error of an element that is right (1e-5, where what "
     "is beyond it must be beyond the bounds of its rounding errors, too)",
     &SetThreshold},
    {"dump_tensors", nullptr,
     "writes the inputs and the reference's outputs of broken layers to files; "
     "-dump_tensors=false: nothing (true)",
     &DebuggerFlags::dump_tensors},
    {"dump_dir", "DIR", "the folder of these files (the current one)",
     &DebuggerFlags::dump_dir},
    {"glow_global_fp16", nullptr,
     "converts the network to float16 first, for both backends",
     &DebuggerFlags::fp16},
    {"glow_clip_fp16", nullptr,
     "where that makes float16 of a number beyond its range, makes the largest "
     "number",
     &DebuggerFlags::clip_fp16},
    {"glow_global_fused_scale_offset_fp16", nullptr,
     "rounds scales and offsets that lie behind rows of bytes to float16",
     &DebuggerFlags::fused_fp16},
    {"glow_global_force_sls_fp16_accum", nullptr,
     "sums up rows of bytes in float16 where the sums are of that type",
     &DebuggerFlags::sls_fp16},
    {"alone", nullptr,
     "tries every layer alone, also those that match in the network",
     &DebuggerFlags::all_alone},
    {"python", "PROGRAM", "the Python that runs ort and onnx (python3)",
     &DebuggerFlags::python},
    {"compiler", "COMMAND", "the compiler of the backend c (cc -O2)",
     &DebuggerFlags::compiler},
    {"fuse", nullptr,
     "computes operations together where backends do; -fuse=false: each "
     "operation is a layer (true)",
     &DebuggerFlags::fuse},
    {"help", nullptr, "this text", &DebuggerFlags::wants_help},
};

// Flags of Glow's other tools that change what is calculated, and why there is
// none of that name here; its network debugger has none of them either.
constexpr char kNotConverted[] =
    "constants and inputs are converted where an operation reads them";
constexpr char kStoredScales[] =
    "a model says its scales, and none is made for it";
constexpr std::pair<const char*, const char*> kForeignFlags[] = {
    {"glow_clip_fp16_skip_inputs", "inputs are clipped as all else is"},
    {"glow_clip_quant_range_to_fp16", kStoredScales},
    {"glow_clip_zero_scale_fp16", kStoredScales},
    {"glow_enable_quant_param_changes", kStoredScales},
    {"glow_global_fp16_constants", kNotConverted},
    {"glow_global_fp16_placeholders", kNotConverted},
    {"glow_global_fused_scale_offset_fp32",
     "rows whose scales are of float16 are read as they are"},
    {"glow_skip_bias_fp32tofp16_convert", "a bias has the type of its sums"},
    {"glow_use_tracked_dummy_quant_params", kStoredScales},
};

// The name of the flag is put in front of a message by the caller.
absl::Status SetFlag(const FlagRow& row, const std::string& value,
                     DebuggerFlags* flags) {
  if (const auto* read = std::get_if<3>(&row.place)) {
    return (*read)(value, flags);
  }
  if (const auto* is_on = std::get_if<0>(&row.place)) {
    if (value != "true" && value != "false" && value != "1" && value != "0") {
      return BadValue(value, "true or false");
    }
    flags->*(*is_on) = value == "true" || value == "1";
    return absl::OkStatus();
  }
  if (value.empty()) return BadValue(value, "a value");
  if (const auto* text = std::get_if<1>(&row.place)) {
    flags->*(*text) = value;
  } else {
    (flags->*std::get<2>(row.place)).push_back(value);
  }
  return absl::OkStatus();
}

// Most flags with their values are shorter. Longer ones have the beginning of
// their description pushed to the right, and no line of their own.
constexpr size_t kFlagColumn = 23;
constexpr size_t kFlagsWidth = 80;

std::string Wrapped(std::string_view text) {
  std::string wrapped;
  size_t column = kFlagColumn;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (column + 1 + word.size() >= kFlagsWidth) {
      wrapped += "\n" + std::string(kFlagColumn, ' ');
      column = kFlagColumn;
    }
    wrapped.append(" ").append(word);
    column += 1 + word.size();
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return wrapped + "\n";
}

// A flag of Glow's that is missing here on purpose is answered with the reason,
// since advice on spelling would mislead.
absl::StatusOr<const FlagRow*> FindFlag(const std::string& argument,
                                        const std::string& name) {
  std::vector<std::string> names;
  for (const FlagRow& row : kFlags) {
    if (name == row.name) return &row;
    names.emplace_back(row.name);
  }
  if (!argument.starts_with('-')) {
    return InvalidArgument("{}: is one argument too many, expected flags alone",
                           Printable(argument));
  }
  for (const auto& [known, reason] : kForeignFlags) {
    if (name != known) continue;
    return InvalidArgument(
        "-{}: is a flag of Glow's runtime, not of its network debugger: {}",
        name, reason);
  }
  return InvalidArgument("{}: there is no such flag{} (network-debugger -help)",
                         Printable(argument), DidYouMean(name, names));
}

}  // namespace

absl::StatusOr<DebuggerFlags> ParseFlags(
    absl::Span<const std::string> arguments) {
  DebuggerFlags flags;
  // The loop may take two arguments at a time: a flag, and its value.
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    // An argument without a dash has no name; FindFlag() refuses it.
    const size_t equals = argument.find('=');
    const size_t dashes = argument.starts_with("--")  ? 2
                          : argument.starts_with('-') ? 1
                                                      : argument.size();
    const std::string name =
        argument.substr(dashes, equals == std::string::npos
                                    ? equals
                                    : std::max(equals, dashes) - dashes);
    NODEWISE_ASSIGN_OR_RETURN(const FlagRow* const row,
                              FindFlag(argument, name));
    // A switch that stands alone is on.
    std::string value = "true";
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (row->value != nullptr) {
      if (i + 1 == arguments.size()) {
        return InvalidArgument("-{}: has no value, expected {}", name,
                               row->value);
      }
      value = arguments[++i];
    }
    const absl::Status status = SetFlag(*row, value, &flags);
    if (!status.ok()) return At("-" + name, status);
  }
  if (flags.wants_help) return flags;
  // Only a call for help needs neither a model nor inputs.
  for (const auto& [is_missing, name] :
       {std::pair(flags.model.empty(), "model"),
        std::pair(flags.inputs.empty(), "inputs")}) {
    if (!is_missing) continue;
    return InvalidArgument(
        "-{}: is missing, expected a file (network-debugger -help)", name);
  }
  return flags;
}

// The order is that of the table: what is needed first, then Glow's flags, then
// those that Glow does not have.
std::string FlagsHelp() {
  std::string help =
      "network-debugger finds the layers of a network that a backend computes "
      "wrong.\n\n"
      "usage: network-debugger --model FILE --inputs FILE... [flags]\n\n";
  for (const FlagRow& row : kFlags) {
    const std::string left =
        fmt::format("  -{}{}{}", row.name, row.value == nullptr ? "" : "=",
                    row.value == nullptr ? "" : row.value);
    help += fmt::format("{:<{}}{}", left, kFlagColumn, Wrapped(row.help));
  }
  return help +
         "\nFlags may begin with one dash or two. Exit status: 0 all layers "
         "match, 1 some do\nnot, 2 could not judge.\n";
}

}  // namespace nodewise

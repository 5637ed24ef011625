#include "apps/network-debugger/flags.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

absl::Status BadValue(std::string_view found, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("found \"{}\", expected {}", Printable(found), expected));
}

absl::Status SetText(const std::string& value, std::string* text) {
  if (value.empty()) return BadValue(value, "a value");
  *text = value;
  return absl::OkStatus();
}

absl::Status SetSwitch(const std::string& value, bool* is_on) {
  if (value != "true" && value != "false" && value != "1" && value != "0") {
    return BadValue(value, "true or false");
  }
  *is_on = value == "true" || value == "1";
  return absl::OkStatus();
}

absl::Status SetComparator(std::string value, DebuggerFlags* flags) {
  const std::string found = value;
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view suffix : {"comparator", "layer"}) {
    if (value.ends_with(suffix)) value.resize(value.size() - suffix.size());
  }
  if (value != "intermediate" && value != "recursive") {
    return BadValue(found, "Intermediate or Recursive");
  }
  flags->is_recursive = value == "recursive";
  return absl::OkStatus();
}

absl::Status SetThreshold(const std::string& value, double* threshold) {
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, *threshold);
  const bool is_number = error == std::errc() && stop == end;
  if (is_number && std::isfinite(*threshold) && *threshold >= 0) {
    return absl::OkStatus();
  }
  return BadValue(value, "a number from 0, as in 1e-5");
}

// A flag; a switch may stand without a value.
struct FlagRow {
  const char* name;
  const char* value;  // What stands for it in the help; null for a switch.
  const char* help;
  absl::Status (*set)(const std::string& value, DebuggerFlags* flags);
};

constexpr FlagRow kFlags[] = {
    {"model", "FILE", "the ONNX model, or a .zip file that holds it (needed)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->model);
     }},
    {"inputs", "FILE",
     "sample inputs: a TensorProto, a graph with initializers, .npz, .npy or "
     ".params; may be given again (needed)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->inputs.emplace_back());
     }},
    {"input", "FILE", "the same as -inputs",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->inputs.emplace_back());
     }},
    {"backend", "NAME",
     "what is tested: Interpreter, also called reference; OneDNN, also called "
     "CPU; c, the C that is emitted; ort, onnxruntime; onnx, the evaluator of "
     "ONNX's package; exec:COMMAND, any program (Interpreter)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->backend);
     }},
    {"comparator", "NAME",
     "Intermediate: all layers at once; Recursive: one after the other, in "
     "little memory (Intermediate)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetComparator(value, flags);
     }},
    {"threshold", "NUMBER",
     "the largest absolute error of an element that is right (1e-5, where what "
     "is beyond it must be beyond the bounds of its rounding errors, too)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetThreshold(value, &flags->threshold);
     }},
    {"dump_tensors", nullptr,
     "writes the inputs and the reference's outputs of broken layers to files; "
     "-dump_tensors=false: nothing (true)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->dump_tensors);
     }},
    {"dump_dir", "DIR", "the folder of these files (the current one)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->dump_dir);
     }},
    {"glow_global_fp16", nullptr,
     "converts the network to float16 first, for both backends",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->fp16);
     }},
    {"glow_clip_fp16", nullptr,
     "where that makes float16 of a number beyond its range, makes the largest "
     "number",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->clip_fp16);
     }},
    {"glow_global_fused_scale_offset_fp16", nullptr,
     "rounds scales and offsets that lie behind rows of bytes to float16",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->fused_fp16);
     }},
    {"glow_global_force_sls_fp16_accum", nullptr,
     "sums up rows of bytes in float16 where the sums are of that type",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->sls_fp16);
     }},
    {"alone", nullptr,
     "tries every layer alone, also those that match in the network",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->all_alone);
     }},
    {"python", "PROGRAM", "the Python that runs ort and onnx (python3)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->python);
     }},
    {"compiler", "COMMAND", "the compiler of the backend c (cc -O2)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetText(value, &flags->compiler);
     }},
    {"fuse", nullptr,
     "computes operations together where backends do; -fuse=false: each "
     "operation is a layer (true)",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->fuse);
     }},
    {"help", nullptr, "this text",
     [](const std::string& value, DebuggerFlags* flags) {
       return SetSwitch(value, &flags->wants_help);
     }},
};

// Flags of Glow's other tools that change what is calculated, and why there is
// none of that name here; its network debugger has none of them either.
struct ForeignFlag {
  const char* name;
  const char* reason;
};
constexpr char kNotConverted[] =
    "constants and inputs are converted where an operation reads them";
constexpr char kStoredScales[] =
    "a model says its scales, and none is made for it";
constexpr ForeignFlag kForeignFlags[] = {
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

absl::StatusOr<const FlagRow*> FindFlag(const std::string& argument,
                                        const std::string& name) {
  std::vector<std::string> names;
  for (const FlagRow& row : kFlags) {
    if (name == row.name) return &row;
    names.emplace_back(row.name);
  }
  if (!argument.starts_with('-')) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is one argument too many, expected flags alone",
                    Printable(argument)));
  }
  for (const ForeignFlag& flag : kForeignFlags) {
    if (name != flag.name) continue;
    return absl::InvalidArgumentError(fmt::format(
        "-{}: is a flag of Glow's runtime, not of its network debugger: {}",
        name, flag.reason));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: there is no such flag{} (network-debugger -help)",
                  Printable(argument), DidYouMean(name, names)));
}

}  // namespace

absl::StatusOr<DebuggerFlags> ParseFlags(
    absl::Span<const std::string> arguments) {
  DebuggerFlags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
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
    std::string value = "true";
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (row->value != nullptr) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            fmt::format("-{}: has no value, expected {}", name, row->value));
      }
      value = arguments[++i];
    }
    const absl::Status status = row->set(value, &flags);
    if (!status.ok()) return At("-" + name, status);
  }
  if (flags.wants_help) return flags;
  for (const auto& [is_missing, name] :
       {std::pair(flags.model.empty(), "model"),
        std::pair(flags.inputs.empty(), "inputs")}) {
    if (!is_missing) continue;
    return absl::InvalidArgumentError(fmt::format(
        "-{}: is missing, expected a file (network-debugger -help)", name));
  }
  return flags;
}

namespace {

constexpr size_t kFlagColumn = 23;
constexpr size_t kFlagsWidth = 80;

// Breaks the text into lines that fit behind the column of flags.
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

}  // namespace

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

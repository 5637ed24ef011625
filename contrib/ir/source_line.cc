// Reads the stack traces that exporters leave.

#include <algorithm>
#include <array>

#include "contrib/ir/text_parts.h"
#include "fmt/format.h"
#include "nodewise/ir/origin.h"

namespace nodewise {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool Consume(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// `File "net.py", line 41, in forward`, as Python writes it.
std::optional<SourceLine> ReadPythonFrame(std::string_view text) {
  if (!Consume("File \"", &text)) return std::nullopt;
  constexpr std::string_view kBeforeLine = "\", line ";
  const size_t quote = text.find(kBeforeLine);
  if (quote == std::string_view::npos) return std::nullopt;
  SourceLine frame;
  frame.file = std::string(text.substr(0, quote));
  text.remove_prefix(quote + kBeforeLine.size());
  const size_t comma = std::min(text.find(','), text.size());
  if (!ReadLineNumber(text.substr(0, comma), &frame.line)) return std::nullopt;
  text.remove_prefix(comma);
  if (Consume(", in ", &text)) frame.function = std::string(text);
  return frame;
}

// "net.py(41): forward", as TorchScript writes it.
std::optional<SourceLine> ReadTorchScriptFrame(std::string_view text) {
  const size_t end = text.rfind("): ");
  if (end == std::string_view::npos) return std::nullopt;
  const size_t begin = text.rfind('(', end);
  if (begin == std::string_view::npos || begin == 0) return std::nullopt;
  SourceLine frame;
  frame.file = std::string(text.substr(0, begin));
  frame.function = std::string(text.substr(end + 3));
  const bool has_line =
      ReadLineNumber(text.substr(begin + 1, end - begin - 1), &frame.line);
  return has_line ? std::optional(std::move(frame)) : std::nullopt;
}

// "net.py:41 (forward)" or "net.py:41:8 (forward)", as jax writes it.
std::optional<SourceLine> ReadJaxFrame(std::string_view text) {
  if (!text.ends_with(')')) return std::nullopt;
  text.remove_suffix(1);
  const size_t begin = text.rfind(" (");
  if (begin == std::string_view::npos) return std::nullopt;
  SourceLine frame;
  frame.function = std::string(text.substr(begin + 2));
  text = text.substr(0, begin);
  std::optional<uint32_t> number;
  while (true) {  // The last number is the column, if there are two.
    const size_t colon = text.rfind(':');
    uint32_t found = 0;
    if (colon == std::string_view::npos || colon == 0 ||
        !ReadLineNumber(text.substr(colon + 1), &found)) {
      break;
    }
    number = found;
    text = text.substr(0, colon);
  }
  if (!number.has_value()) return std::nullopt;
  frame.line = *number;
  frame.file = std::string(text);
  return frame;
}

// Whether a frame is of what runs models and not of what defines one. Models
// are installed packages, too (transformers, timm): their lines say more than
// that of the script that calls the model.
bool IsOfFramework(const SourceLine& frame) {
  if (frame.file.starts_with('<')) return true;  // "<eval_with_key>.24"
  std::string file = frame.file;
  std::replace(file.begin(), file.end(), '\\', '/');
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = file.rfind(folder);
    if (at == std::string::npos) continue;
    const std::string_view inside =
        std::string_view(file).substr(at + folder.size());
    const std::string_view package =
        inside.substr(0, std::min(inside.find('/'), inside.size()));
    constexpr std::array<std::string_view, 12> kFrameworks = {
        "torch",   "functorch", "torch_xla", "onnxscript",
        "onnx_ir", "jax",       "jaxlib",    "jax2onnx",
        "flax",    "equinox",   "keras",     "tensorflow"};
    return std::find(kFrameworks.begin(), kFrameworks.end(), package) !=
           kFrameworks.end();
  }
  // A framework that runs from its own sources, and Python's own modules.
  constexpr std::array<std::string_view, 8> kFolders = {
      "/torch/nn/",     "/torch/_",    "/torch/fx/",    "/torch/onnx/",
      "/torch/export/", "/torch/jit/", "/torch/utils/", "/torch/functional.py"};
  for (const std::string_view folder : kFolders) {
    if (Contains(file, folder)) return true;
  }
  return Contains(file, "/lib/python3");
}

// Python's traces have the innermost frame last, and the code below each.
std::optional<SourceLine> FindInPythonTrace(
    const std::vector<std::string_view>& lines) {
  std::optional<SourceLine> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    auto frame = ReadPythonFrame(lines[i]);
    if (!frame.has_value() || IsOfFramework(*frame)) continue;
    const bool has_code =
        i + 1 < lines.size() && !ReadPythonFrame(lines[i + 1]).has_value();
    if (has_code) frame->code = std::string(lines[i + 1]);
    found = std::move(frame);
  }
  return found;
}

}  // namespace

std::string SourceLine::ToString() const {
  const std::string_view name = LastPart(LastPart(file, '/'), '\\');
  std::string text = name.empty() ? fmt::format("line {}", line)
                                  : fmt::format("{}:{}", name, line);
  if (!function.empty()) text += " in " + function;
  if (!code.empty()) text += ": " + code;
  return text;
}

std::optional<SourceLine> FindSourceLine(std::string_view trace) {
  std::vector<std::string_view> lines;
  for (const std::string_view line : Split(trace, '\n')) {
    lines.push_back(Trimmed(line));
  }
  auto found = FindInPythonTrace(lines);
  if (found.has_value()) return found;
  for (const std::string_view line : lines) {
    for (const auto read : {&ReadTorchScriptFrame, &ReadJaxFrame}) {
      auto frame = read(line);
      if (frame.has_value() && !IsOfFramework(*frame)) return frame;
    }
  }
  return std::nullopt;
}

}  // namespace nodewise

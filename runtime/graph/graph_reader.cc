#include "runtime/graph/graph_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "runtime/graph/graph_events.h"
#include "runtime/graph/json_cursor.h"

namespace nodewise {
namespace {

// nlohmann's SAX interface on one side, GraphEvents on the other.
class JsonAdapter {
 public:
  JsonAdapter(const GraphText& text, GraphEvents* events,
              DiagnosticList* diagnostics)
      : text_(text), events_(*events), diagnostics_(diagnostics) {}

  bool null() { return events_.Scalar("null"); }
  bool boolean(bool value) { return events_.Scalar(value ? "true" : "false"); }
  bool number_integer(int64_t value) { return events_.Number(value); }
  bool number_unsigned(uint64_t value) {
    if (value > INT64_MAX) return events_.Scalar(std::to_string(value).c_str());
    return events_.Number(static_cast<int64_t>(value));
  }
  bool number_float(double, const std::string& written) {
    return events_.Scalar(written.c_str());
  }
  bool string(std::string& value) { return events_.String(value); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return events_.Open(false); }
  bool start_array(size_t) { return events_.Open(true); }
  bool key(std::string& name) { return events_.Key(name); }
  bool end_object() { return events_.Close(); }
  bool end_array() { return events_.Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error);

 private:
  const GraphText& text_;
  GraphEvents& events_;
  DiagnosticList* diagnostics_;
};

bool JsonAdapter::parse_error(size_t position, const std::string&,
                              const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ...": we
  // name the place ourselves.
  std::string_view reason = error.what();
  const size_t colon = reason.find(": ");
  if (colon != std::string_view::npos) reason.remove_prefix(colon + 2);
  const size_t offset =
      std::min(position > 0 ? position - 1 : 0, text_.text.size());
  const std::string_view before = text_.text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // 0 if there is none.
  diagnostics_->Add(
      {Severity::kError, text_.name, "",
       static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1,
       offset - line_start + 1, fmt::format("not JSON: {}", Shortened(reason)),
       "", ""});
  return false;
}

// The parser spells out every control character in an error message, eight
// bytes for each, whether anyone reads it or not. A large file that is mostly
// newlines would cost many times its size.
bool IsMostlyControls(std::string_view text) {
  constexpr size_t kLarge = size_t{4} << 20;
  if (text.size() < kLarge) return false;
  const auto controls = std::count_if(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ';
  });
  return static_cast<size_t>(controls) > text.size() / 5 * 2;
}

}  // namespace

bool ReadGraphJson(const GraphText& text, Graph* graph, GraphLists* lists,
                   DiagnosticList* diagnostics) {
  if (IsMostlyControls(text.text)) {
    diagnostics->Add({Severity::kError, text.name, "", 1, 1,
                      "mostly line ends and other control characters",
                      "the text of a graph", ""});
    return false;
  }
  JsonCursor cursor(text.text);
  GraphEvents events(text, cursor, graph, lists, diagnostics);
  JsonAdapter adapter(text, &events, diagnostics);
  const bool is_json =
      nlohmann::json::sax_parse(cursor.begin(), cursor.end(), &adapter,
                                nlohmann::json::input_format_t::json,
                                /*strict=*/true, /*ignore_comments=*/false);
  return is_json && !events.stopped();
}

}  // namespace nodewise

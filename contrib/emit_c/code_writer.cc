#include "contrib/emit_c/code_writer.h"

#include "contrib/emit_c/c_text.h"
#include "fmt/format.h"

namespace nodewise::emit_c {

void CodeWriter::Line(std::string_view line) {
  text_.append(static_cast<size_t>(2 * depth_), ' ');
  text_ += line;
  text_ += '\n';
}

void CodeWriter::Open(std::string_view head) {
  Line(head.empty() ? "{" : fmt::format("{} {{", head));
  ++depth_;
}

void CodeWriter::For(std::string_view index, std::string_view count) {
  Open(fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0})", index, count));
}

void CodeWriter::For(std::string_view index, int64_t count) {
  For(index, IntegerText(count));
}

void CodeWriter::Close(int blocks) {
  for (; blocks > 0; --blocks) {
    --depth_;
    Line("}");
  }
}

}  // namespace nodewise::emit_c

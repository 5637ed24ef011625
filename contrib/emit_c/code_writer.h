#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nodewise::emit_c {

// Lines of C, indented by the blocks that they are in.
class CodeWriter {
 public:
  explicit CodeWriter(int depth = 0) : depth_(depth) {}

  void Line(std::string_view line);
  // Begins a block: "HEAD {". No head begins one for the sake of its names.
  void Open(std::string_view head = "");
  // Begins a loop of an int64_t from 0 on: count is a number or an expression.
  void For(std::string_view index, std::string_view count);
  void For(std::string_view index, int64_t count);
  void Close(int blocks = 1);

  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_;
};

}  // namespace nodewise::emit_c

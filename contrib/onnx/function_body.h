#pragma once

// The language in which contrib_functions.cc writes what an operator means in
// operators of ONNX's own domain. A body is lines of the form
//
//   OUTPUTS = OPERATOR<ATTRIBUTE=VALUE, ...>(INPUTS) if CONDITION
//
// with or without the attributes and the condition; one may be broken before
// the bracket that closes the inputs. Lists are separated by commas. A name
// that is given again stands for the new value from then on.
//   inputs: a value, nothing for one that is left out, integers in brackets,
//     [-1], or a number or $ATTRIBUTE, of the type of the node's first input
//   attributes: a * stands for all that the node hands on (ContribFunction)
//   values of attributes: an integer, a word, $ATTRIBUTE, or $ATTRIBUTE[i], an
//     element of a list of floats, 0 if it has less; also for inputs
//   conditions: NAME or !NAME for an input that is given or not, $ATTRIBUTE for
//     one that is not 0, $ATTRIBUTE=WORD, $ATTRIBUTE!=NUMBER
// Besides ONNX's operators there are
//   SwapLast(INPUT)           its last two sides exchanged
//   BatchToSecondLast(INPUT)  its first side put before the last one
//   ZeroOf(INPUT)             0, one number of its type
//   Refuse()                  says that the condition's attribute is not known

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nodewise {

// The parts of a line, as they are written.
struct BodyStatement {
  std::vector<std::string> outputs;
  std::string op;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::string> inputs;
  std::string condition;  // Empty: none.
};

// Returns the lines. A body that does not follow the rules ends the process:
// the bodies are part of the program.
std::vector<BodyStatement> ParseBody(std::string_view body);

}  // namespace nodewise

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/onnx_messages.h"

namespace nodewise {

// The language in which the tables of contrib_functions.h write what an
// operator means in operators of ONNX's own domain. A body is lines of the form
//
//   OUTPUTS = OPERATOR<ATTRIBUTE=VALUE, ...>(INPUTS) if CONDITION
//
// with or without the attributes and the condition; one may be broken before
// the bracket that closes the inputs. Lists are separated by commas. A name
// that is given again stands for the new value from then on; one that no line
// whose condition holds has given stands for an input that is left out. Lines
// whose outputs nothing needs are left out.
//   operators: those of ONNX, and of another domain as DOMAIN.OPERATOR
//   inputs: a value, nothing for one that is left out, integers in brackets,
//     [-1, $ATTRIBUTE], or one integer, #2 or #$ATTRIBUTE, all of int64, or a
//     number or $ATTRIBUTE, of the type of the node's first input; a list of
//     integers as $ATTRIBUTE is one as an input too
//   attributes: a * stands for all that the node hands on (ContribFunction)
//   values of attributes: an integer, a word, integers in brackets, $ATTRIBUTE,
//     or $ATTRIBUTE[i], an element of a list of numbers, 0 if it has less; also
//     for inputs
//   integers: $ATTRIBUTE*2+1, too, without or with either part
//   conditions: NAME or !NAME for an input that is given or not, $ATTRIBUTE for
//     one that is neither 0 nor empty, $ATTRIBUTE=WORD, $ATTRIBUTE=NUMBER,
//     $ATTRIBUTE!=NUMBER, $ATTRIBUTE<NUMBER, rank(NAME)=NUMBER,
//     type(NAME)=TYPE, last(ATTRIBUTE, NAME) for one that is the last axis of
//     the input, a ! before one for its contrary, and several of these with
//     "and" between
//   NAME...3 as the only input: the line is repeated for each three inputs of
//     the node that are given from the last, variadic one on; its output, also
//     written NAME..., is then all of the results
//   NAME... otherwise: all of these inputs
// Besides ONNX's operators there are
//   SwapLast(INPUT)           its last two sides exchanged
//   BatchToSecondLast(INPUT)  its first side put before the last one
//   ChannelsFirst(X, INPUT)   the last side of X, which has as many as INPUT,
//                             put behind the first one
//   ChannelsLast(X, INPUT)    the contrary
//   ZeroOf(INPUT)             0, one number of its type
//   CastAs(X, INPUT)          X in the type of INPUT
//   Refuse()                  says that what the condition names is not known
//   Refuse(WORDS)             says that it is not supported with these words

// The parts of a line, as they are written.
struct BodyStatement {
  std::vector<std::string> outputs;
  std::string domain;
  std::string op;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::string> inputs;
  std::string condition;  // Empty: none.
};

// Returns the lines. A body that does not follow the rules ends the process:
// the bodies are part of the program.
std::vector<BodyStatement> ParseBody(std::string_view body);

// A node that is one of ContribFunctions().
struct ContribCall {
  const ContribFunction& function;
  const OpSet& ops;
  int opset = 0;  // The version of ONNX's own domain.
  // By input of the function, a variadic one as often as it is given: whether
  // it is given, and what is known of it.
  std::vector<InputInfo> inputs;
  // Which outputs are wanted.
  std::vector<bool> wanted;
  // Returns an attribute of the node, or null if it is not given.
  absl::FunctionRef<const proto::Attribute*(std::string_view name)> attribute;
  // Attributes that the function has besides its own.
  absl::Span<const FunctionAttribute> more_attributes = {};
};

// Returns the function that this node calls, as a model would hold it: made for
// the node, since it depends on what is given and on the types. Fails with
// kInvalidArgument if an input or an attribute does not fit.
absl::StatusOr<std::unique_ptr<proto::Function>> FunctionOf(
    const ContribCall& call);

}  // namespace nodewise

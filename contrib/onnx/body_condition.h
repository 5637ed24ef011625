#pragma once

// Conditions of lines in function bodies (function_body.h).

#include <map>
#include <string>
#include <string_view>

#include "contrib/onnx/contrib_call.h"

namespace nodewise {

// The attributes of a call: those of the node, and the defaults of the others.
using CallAttributes = std::map<std::string, proto::Attribute, std::less<>>;

// Returns whether a condition holds. One that does not follow the rules ends
// the process, as do other mistakes in bodies.
bool Holds(std::string_view condition, const ContribCall& call,
           const CallAttributes& attributes);
// Returns the parts of a condition, all of which must hold.
std::vector<std::string_view> PartsOf(std::string_view condition);

// Returns the number that the text is. REQUIRES: it is one.
double NumberOf(std::string_view text);
bool IsNumber(std::string_view text);
// Returns what is known of an input of the function.
const InputInfo& InfoOf(std::string_view input, const ContribCall& call);

}  // namespace nodewise

#pragma once

#include <cstdint>
#include <string>

#include "nodewise/ir/network.h"

namespace nodewise {

// Return what is stored under a number, valid or not; null if nothing.
const NetworkValue* Find(const NetworkData& data, ValueId id);
const Operation* Find(const NetworkData& data, OperationId id);

// How messages name a place: "operation Conv_3", "operation Conv_3: input 1
// (W)", "value w", "the barrier of operation Conv_3". Names come from files, so
// they are shortened.
std::string PlaceOf(const Operation& operation);
std::string PlaceOfInput(const Operation& operation, size_t slot);
std::string PlaceOfOutput(const Operation& operation, size_t slot);
std::string PlaceOf(const NetworkData& data, const NetworkValue& value);

// Return the name, shortened, or "#3" or "%7" for what has none.
std::string NameOf(const Operation& operation);
std::string NameOf(const NetworkValue& value);

// "value w", "value 7, which does not exist", ...
std::string TitleOf(const NetworkData& data, ValueId id);
std::string TitleOf(const NetworkData& data, OperationId id);

// Lists operations: "a -> b -> a", cut in the middle if there are very many.
std::string PathText(const NetworkData& data,
                     absl::Span<const OperationId> path);

}  // namespace nodewise

#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/ir/operation_source.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/words.h"

namespace nodewise {

// Shows where operations of a model are from in the program that made it.

// Adds a row for each line of the program, or a few of many.
void AddSourceRows(absl::Span<const OperationSource> sources, TextTable* table);

// Adds `source`, if there is one.
void AddSources(absl::Span<const OperationSource> sources, JsonWriter* json);

// Returns where the culprit of this key is from.
absl::Span<const OperationSource> SourcesOfCulprit(
    absl::Span<const NamedCulprit> culprits, std::string_view key);

}  // namespace nodewise

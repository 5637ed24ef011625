#include "nodewise/report/source_report.h"

#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {

void AddSourceRows(absl::Span<const OperationSource> sources,
                   TextTable* table) {
  constexpr size_t kMostShown = 4;
  const std::vector<std::string> texts = TextsOf(sources);
  for (size_t i = 0; i < texts.size() && i < kMostShown; ++i) {
    table->AddRow({i == 0 ? "from" : "", texts[i]});
  }
  if (texts.size() > kMostShown) {
    table->AddRow({"", CountOf(texts.size() - kMostShown, "more line")});
  }
}

void AddSources(absl::Span<const OperationSource> sources, JsonWriter* json) {
  if (sources.empty()) return;
  json->BeginArray("source");
  for (const OperationSource& source : sources) {
    json->BeginObject();
    json->Add("operation", source.operation);
    if (!source.module.empty()) json->Add("module", source.module);
    if (source.line.has_value()) {
      json->Add("file", source.line->file);
      json->Add("line", uint64_t{source.line->line});
      json->Add("function", source.line->function);
      json->Add("code", source.line->code);
    }
    json->EndObject();
  }
  json->EndArray();
}

absl::Span<const OperationSource> SourcesOfCulprit(
    absl::Span<const NamedCulprit> culprits, std::string_view key) {
  for (const NamedCulprit& culprit : culprits) {
    const NodePlace* const place = culprit.finding.node();
    if (place != nullptr && place->key == key) return culprit.source;
  }
  return {};
}

}  // namespace nodewise

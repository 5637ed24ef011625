#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nodewise/tensors/tensor_collector.h"
#include "nodewise/tensors/tensor_source.h"
#include "tests/support/matchers.h"

namespace nodewise {

// What the tests of sources share.

// Returns all that a source hands out; fails the test if it cannot.
inline std::vector<TensorCollector::Kept> VisitAll(TensorSource& source) {
  TensorCollector collector;
  EXPECT_THAT(source.Visit(collector), IsOk());
  return collector.kept();
}

inline std::vector<std::string> NamesOf(
    const std::vector<TensorCollector::Kept>& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.key.Name());
  return names;
}

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteWhole(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Cuts the last `bytes` off a file.
inline void CutFile(const std::string& path, size_t bytes) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - bytes);
}

}  // namespace nodewise

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"
#include "tests/support/matchers.h"

namespace nodewise {

// Matches a Status or StatusOr with this code whose message contains `part`.
MATCHER_P2(FailsNaming, code, part, "") {
  const absl::Status status = StatusOf(arg);
  *result_listener << "which is " << status.ToString();
  return status.code() == code &&
         MessageOf(status).find(part) != std::string_view::npos;
}

inline absl::Span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <typename T>
std::string LittleEndian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// A .npy file of version 1.0 with this header and this data; the data begins
// at byte 10 + header.size().
inline std::string Npy(std::string_view header, std::string_view data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += LittleEndian(static_cast<uint16_t>(header.size()));
  return bytes.append(header).append(data);
}

inline std::string NpyOf(std::string_view descr, std::string_view shape,
                         std::string_view data) {
  return Npy(std::string("{'descr': '")
                 .append(descr)
                 .append("', 'fortran_order': False, 'shape': ")
                 .append(shape)
                 .append(", }\n"),
             data);
}

inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(
        std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

inline std::string DataOf(const NDArray& tensor) {
  return {tensor.As<char>(), tensor.bytes()};
}

// A path that no other test uses.
inline std::string TestPath(const std::string& name) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string test = info->name();  // "Name/parameter".
  std::replace(test.begin(), test.end(), '/', '_');
  return testing::TempDir() + "nodewise_" + test + "_" + name;
}

inline std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace nodewise

#include "contrib/tensors/numpy.h"
#include "tests/contrib/tensors/numpy_bytes.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

absl::StatusOr<NDArray> Parse(std::string_view bytes) {
  return ParseNpy(Bytes(bytes), "x.npy");
}

TEST(NpyTest, FileOfNumpyIsRead) {
  // numpy.save of numpy.arange(3, dtype='<i2') by numpy 1.24.
  const std::string header =
      "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }" +
      std::string(60, ' ') + "\n";
  const auto tensor = Parse(Npy(header, {"\0\0\1\0\2\0", 6}));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(ToString(tensor->dtype()), "int16");
  EXPECT_THAT(tensor->shape(), ElementsAre(3));
  EXPECT_EQ(DataOf(*tensor), std::string("\0\0\1\0\2\0", 6));
}

TEST(NpyTest, HeaderIsWrittenAsNumpyWritesIt) {
  const auto header = MakeNpyHeader({3}, {kDLInt, 16, 1});
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(*header,
            Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }" +
                    std::string(60, ' ') + "\n",
                ""));
}

TEST(NpyTest, EachNumberTypeIsRead) {
  const struct {
    const char* descr;
    DLDataType dtype;
  } rows[] = {
      {"|b1", kBool},
      {"|i1", {kDLInt, 8, 1}},
      {"<i2", {kDLInt, 16, 1}},
      {"=i4", {kDLInt, 32, 1}},
      {"i8", {kDLInt, 64, 1}},
      {"|u1", {kDLUInt, 8, 1}},
      {"<u2", {kDLUInt, 16, 1}},
      {"<u4", {kDLUInt, 32, 1}},
      {"<u8", {kDLUInt, 64, 1}},
      {"<f2", {kDLFloat, 16, 1}},
      {"<f4", {kDLFloat, 32, 1}},
      {"<f8", {kDLFloat, 64, 1}},
      {"<c8", {kDLComplex, 64, 1}},
      {"<c16", {kDLComplex, 128, 1}},
      {"<V2", {kDLBfloat, 16, 1}},
      {"|V2", {kDLBfloat, 16, 1}},
  };
  for (const auto& row : rows) {
    const std::string data(ElementBytes(row.dtype), '\1');
    const auto tensor = Parse(NpyOf(row.descr, "()", data));
    ASSERT_TRUE(tensor.ok()) << row.descr << tensor.status();
    EXPECT_EQ(ToString(tensor->dtype()), ToString(row.dtype));
    EXPECT_EQ(DataOf(*tensor), data) << row.descr;
  }
}

TEST(NpyTest, BigEndianNumbersAreSwapped) {
  const auto tensor = Parse(NpyOf(">u4", "(2,)", "abcdefgh"));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(DataOf(*tensor), "dcbahgfe");
}

TEST(NpyTest, BigEndianComplexNumbersAreSwappedPartByPart) {
  const auto tensor = Parse(NpyOf(">c8", "(1,)", "abcdefgh"));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(DataOf(*tensor), "dcbahgfe");
}

TEST(NpyTest, FortranOrderBecomesCOrder) {
  const auto tensor = Parse(Npy(
      "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", "adbecf"));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->shape(), ElementsAre(2, 3));
  EXPECT_EQ(DataOf(*tensor), "abcdef");
}

TEST(NpyTest, KeysMayComeInAnyOrderAndSpacing) {
  const auto tensor = Parse(Npy(
      " {\"shape\":(2L,1),'descr' :\"|u1\",\n'fortran_order':False} ", "ab"));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->shape(), ElementsAre(2, 1));
}

TEST(NpyTest, ScalarHasNoDimensions) {
  const auto tensor = Parse(NpyOf("|u1", "()", "a"));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->shape(), IsEmpty());
}

TEST(NpyTest, EmptyArrayHasNoData) {
  const auto tensor = Parse(NpyOf("<f4", "(0, 5)", ""));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->shape(), ElementsAre(0, 5));
}

TEST(NpyTest, VersionsTwoAndThreeHaveLongerHeaderLengths) {
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
  for (const char version : {'\2', '\3'}) {
    const std::string bytes =
        std::string("\x93NUMPY") + version + '\0' +
        LittleEndian(static_cast<uint32_t>(header.size())) + header + "a";
    const auto tensor = Parse(bytes);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(DataOf(*tensor), "a");
  }
}

TEST(NpyTest, WrongHeadersAreDataLossAtTheirByte) {
  const std::string front = "{'descr': '<f4', 'fortran_order': False, ";
  const struct {
    std::string header;
    const char* part;
  } rows[] = {
      {"", "byte 10: header ends, expected '{'"},
      {"[]", "byte 10: header has byte 0x5b, expected '{'"},
      {"{}", "byte 10: header has no key 'descr'"},
      {front + "}", "header has no key 'shape'"},
      {front + "'shape': (), 'a': 1}", "byte 64: header has an unknown key"},
      {front + "'shape': (), 'shape': ()}", "byte 64: key 'shape' comes twice"},
      {front + "'shape': ()} x", "expected only spaces behind the header"},
      {front + "'shape': ()", "expected '}'"},
      {front + "'shape': (3)}", "byte 62: header has byte 0x29, expected ','"},
      {front + "'shape': 3}", "expected '('"},
      {front + "'shape': (-1,)}", "expected a dimension"},
      {front + "'shape': (1 2)}", "expected ','"},
      {front + "'shape': (03,)}", "byte 61: dimension is not a number"},
      {front + "'shape': (9223372036854775808,)}", "dimension is not a number"},
      {front + "'shape': (9223372036854775807,)}", "than memory can hold"},
      {front + "'shape': (4294967296, 4294967296, 0)}", "than memory can hold"},
      {front + "'shape': (1000,)}", "array data needs 4000 bytes, 4 are left"},
      {front + "'shape': (0,)}", "4 bytes follow the array of float32 (0,)"},
      {"{'descr': 3}", "byte 20: header has byte 0x33, expected a string"},
      {"{'descr': 'f4", "byte 20: string has no end"},
      {"{'descr': '\\x66'}", "byte 21: string has a character"},
      {"{'descr': '<q4'}", "byte 20: array has the unknown type '<q4'"},
      {"{'descr': ''}", "byte 20: array has the unknown type ''"},
      {"{'fortran_order': 1}", "byte 28: header has byte 0x31, expected True"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(Parse(Npy(row.header, "data")),
                FailsNaming(StatusCode::kDataLoss, row.part))
        << row.header;
  }
}

TEST(NpyTest, WrongFrontIsDataLossAtItsByte) {
  const std::string good = NpyOf("|u1", "()", "a");
  std::string version = good;
  version[6] = '\4';
  std::string length = good;
  length[9] = '\x7f';
  EXPECT_THAT(Parse(""), FailsNaming(StatusCode::kDataLoss,
                                     "x.npy: byte 0: magic needs 6 bytes"));
  EXPECT_THAT(
      Parse("not an array"),
      FailsNaming(StatusCode::kDataLoss, "byte 0: no .npy file begins"));
  EXPECT_THAT(Parse(version), FailsNaming(StatusCode::kDataLoss,
                                          "byte 6: version is 4.0, expected"));
  EXPECT_THAT(Parse(length), FailsNaming(StatusCode::kDataLoss,
                                         "byte 10: header needs 32568 bytes"));
}

TEST(NpyTest, TypesThatNoTensorHasAreRefusedByName) {
  const struct {
    const char* descr;
    const char* part;
  } rows[] = {
      {"'|O'", "array has type '|O'"},
      {"'<U7'", "these are strings"},
      {"'|S3'", "these are byte strings"},
      {"'<M8[ns]'", "these are dates"},
      {"'<m8[ns]'", "these are time spans"},
      {"'|V1'", "floats of 8 bits or less, which numpy does not tell apart"},
      {"'>V2'", "these are raw bytes"},
      {"'|V12'", "array has type '|V12'"},
      {"'<f16'", "these are long double"},
      {"[('a', '<f4')]", "structured type"},
      {"('<f4', (2,))", "structured type"},
  };
  for (const auto& row : rows) {
    const std::string header = std::string("{'descr': ") + row.descr + "}";
    EXPECT_THAT(Parse(Npy(header, "")),
                FailsNaming(StatusCode::kUnimplemented, row.part));
    EXPECT_THAT(Parse(Npy(header, "")),
                FailsNaming(StatusCode::kUnimplemented, "x.npy: byte 20: "));
  }
}

TEST(NpyTest, MoreDimensionsThanNumpyAllowsAreRefused) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1,";
  EXPECT_THAT(Parse(NpyOf("|u1", shape + ")", "a")),
              FailsNaming(StatusCode::kDataLoss, "more than 64 dimensions"));
  EXPECT_THAT(MakeNpyHeader(std::vector<int64_t>(65, 1), kFloat32),
              FailsNaming(StatusCode::kUnimplemented, "65 dimensions"));
}

TEST(NpyTest, LanesBecomeTheLastDimension) {
  const auto header = MakeNpyHeader({2}, {kDLFloat, 32, 4});
  ASSERT_TRUE(header.ok()) << header.status();
  const auto tensor = Parse(*header + std::string(32, '\0'));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->shape(), ElementsAre(2, 4));
  EXPECT_EQ(ToString(tensor->dtype()), "float32");
}

TEST(NpyTest, TypesThatNumpyLacksAreNotWritten) {
  for (const DLDataType dtype :
       {DLDataType{kDLOpaqueHandle, 64, 1}, DLDataType{kDLInt, 128, 1},
        DLDataType{kDLUInt, 1, 8}, DLDataType{kDLInt, 4, 2}}) {
    EXPECT_THAT(MakeNpyHeader({1}, dtype),
                FailsNaming(StatusCode::kUnimplemented,
                            "type " + ToString(dtype) + " is none that numpy"));
  }
}

TEST(NpyTest, EveryTruncationIsDataLoss) {
  const std::string good = NpyOf("<f4", "(2,)", "12345678");
  ASSERT_TRUE(Parse(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    // A copy of exactly this size, so that reading past it is detected.
    const std::vector<uint8_t> cut(good.begin(), good.begin() + size);
    EXPECT_THAT(ParseNpy(cut, "x.npy"), FailsNaming(StatusCode::kDataLoss, ""));
  }
}

TEST(NpyTest, EveryChangedByteGivesAValueOrAnErrorWithAPlace) {
  const std::string good = NpyOf("<f4", "(2,)", "12345678");
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(value);
      const auto tensor = Parse(bytes);
      if (tensor.ok()) continue;
      EXPECT_EQ(MessageOf(tensor.status()).substr(0, 12), "x.npy: byte ");
    }
  }
}

}  // namespace
}  // namespace nodewise

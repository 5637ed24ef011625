#include "contrib/tensors/numpy.h"
#include "contrib/tensors/zip.h"
#include "tests/contrib/tensors/numpy_bytes.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

// numpy.savez_compressed(x=arange(6, dtype='<f4').reshape(2, 3),
//                        flag=array([True, False])) by numpy 1.24.
constexpr std::string_view kCompressedHex =
    "504b0304140000000800000021004fe9002a550000009800000005001400782e6e707901"
    "001000980000000000000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5c"
    "a46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416"
    "a402f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc00100504b0304"
    "14000000080000002100ee19bb5d460000008200000008001400666c61672e6e70790100"
    "1000820000000000000046000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca4"
    "6ea5a05e9364a8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a4"
    "02f91a463a9a3a0ab50a14002e460600504b010214031400000008000000210"
    "04fe9002a5500000098000000050000000000000000000000800100000000782e6e70795"
    "04b0102140314000000080000002100ee19bb5d460000008200000008000000000000000"
    "000000080018c000000666c61672e6e7079504b05060000000002000200690000000c010"
    "0000000";

struct Member {
  std::string name;
  std::string bytes;
};

std::string Zip(std::initializer_list<Member> members,
                uint64_t zip64_from = kZipInExtra) {
  const std::string path = TestPath("made.zip");
  auto file = OutputFile::Create(path);
  ZipWriter writer(&*file, zip64_from);
  for (const Member& member : members) {
    EXPECT_TRUE(writer.Add(member.name, member.bytes, {}).ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(file->Commit().ok());
  return FileBytes(path);
}

const std::string& SmallArray() {
  static const auto* array = new std::string(NpyOf("|u1", "(2,)", "ab"));
  return *array;
}

absl::StatusOr<std::vector<NamedTensor>> ParseArchive(std::string_view bytes) {
  return ParseNpz(Bytes(bytes), "x.npz");
}

// Replaces the field at `offset` in the record that begins with `magic`.
template <typename T>
std::string With(std::string bytes, uint32_t magic, size_t offset, T value) {
  const size_t at = bytes.rfind(LittleEndian(magic));
  EXPECT_NE(at, std::string::npos);
  return bytes.replace(at + offset, sizeof(T), LittleEndian(value));
}

TEST(NpzTest, CompressedArchiveOfNumpyIsRead) {
  const auto tensors = ParseArchive(FromHex(kCompressedHex));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  const NDArray& x = tensors->at(0).tensor;
  EXPECT_EQ(tensors->at(0).name, "x");
  EXPECT_EQ(TypeToString(x.shape(), x.dtype()), "float32 (2, 3)");
  EXPECT_EQ(x.As<float>()[5], 5.0f);
  EXPECT_EQ(tensors->at(1).name, "flag");
  EXPECT_EQ(DataOf(tensors->at(1).tensor), std::string("\1\0", 2));
}

TEST(NpzTest, MembersKeepTheirOrderAndLoseTheirSuffix) {
  const auto tensors = ParseArchive(Zip(
      {{"b.npy", SmallArray()}, {"a", SmallArray()}, {"d/é", SmallArray()}}));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ(tensors->at(0).name, "b");
  EXPECT_EQ(tensors->at(1).name, "a");
  EXPECT_EQ(tensors->at(2).name, "d/é");
}

TEST(NpzTest, EmptyArchiveHasNoTensors) {
  const auto tensors = ParseArchive(Zip({}));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_TRUE(tensors->empty());
}

TEST(NpzTest, Zip64FormIsReadBack) {
  const auto tensors =
      ParseArchive(Zip({{"a.npy", SmallArray()}, {"b.npy", SmallArray()}}, 1));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ(DataOf(tensors->at(1).tensor), "ab");
}

TEST(NpzTest, MoreMembersThanFieldsOf16BitsCountAreReadBack) {
  const std::string path = TestPath("many.zip");
  auto file = OutputFile::Create(path);
  ZipWriter writer(&*file);
  for (int i = 0; i < 65537; ++i) {
    ASSERT_TRUE(writer.Add(std::to_string(i), SmallArray(), {}).ok());
  }
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(file->Commit().ok());
  const auto tensors = ParseArchive(FileBytes(path));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), 65537u);
}

TEST(NpzTest, NameThatComesTwiceIsDataLoss) {
  EXPECT_THAT(
      ParseArchive(Zip({{"a.npy", SmallArray()}, {"a.npy", SmallArray()}})),
      FailsNaming(StatusCode::kDataLoss, "\"a.npy\" comes twice"));
  EXPECT_THAT(ParseArchive(Zip({{"a.npy", SmallArray()}, {"a", SmallArray()}})),
              FailsNaming(StatusCode::kDataLoss, "\"a\" comes twice"));
}

TEST(NpzTest, WhatIsWrongWithAnArrayIsNamedByItsMember) {
  EXPECT_THAT(ParseArchive(Zip({{"a.npy", "text"}})),
              FailsNaming(StatusCode::kDataLoss,
                          "x.npz: \"a.npy\": byte 0: magic needs 6 bytes"));
  EXPECT_THAT(ParseArchive(Zip({{"a.npy", Npy("{'descr': '|O'}", "")}})),
              FailsNaming(StatusCode::kUnimplemented,
                          "x.npz: \"a.npy\": byte 20: array has type '|O'"));
}

TEST(NpzTest, OtherPackingIsRefusedByName) {
  const std::string good = Zip({{"a.npy", SmallArray()}});
  EXPECT_THAT(
      ParseArchive(With<uint16_t>(good, kZipEntryMagic, 10, 12)),
      FailsNaming(StatusCode::kUnimplemented, "packed by method 12 (bzip2)"));
  EXPECT_THAT(ParseArchive(With<uint16_t>(good, kZipEntryMagic, 10, 93)),
              FailsNaming(StatusCode::kUnimplemented, "method 93 (zstd)"));
  EXPECT_THAT(
      ParseArchive(With<uint16_t>(good, kZipEntryMagic, 8, 1)),
      FailsNaming(StatusCode::kUnimplemented, "\"a.npy\" is encrypted"));
  EXPECT_THAT(ParseArchive(With<uint16_t>(good, kZipEndMagic, 4, 1)),
              FailsNaming(StatusCode::kUnimplemented, "several parts"));
}

TEST(NpzTest, FieldsThatCannotBeTrueAreDataLoss) {
  const std::string good = Zip({{"a.npy", SmallArray()}});
  const struct {
    uint32_t magic;
    size_t offset;
    uint32_t value;
    const char* part;
  } rows[] = {
      {kZipLocalMagic, 0, 0, "x.npz: byte 0: member \"a.npy\" is not here"},
      {kZipLocalMagic, 26, 0x7FFF7FFF, "which reach into the directory"},
      {kZipLocalMagic, 30, 0, "byte 30: member has another name"},
      {kZipEntryMagic, 0, 0, "no entry of the directory begins here"},
      {kZipEntryMagic, 16, 0, "data has the CRC-32"},
      {kZipEntryMagic, 20, 7, "claims 70 bytes, but no 7 bytes"},
      {kZipEntryMagic, 24, 7, "claims 7 bytes, but no 70 bytes"},
      {kZipEntryMagic, 28, 0xFFFF, "entry is longer than the directory"},
      {kZipEntryMagic, 42, 1, "byte 1: member \"a.npy\" is not here"},
      {kZipEntryMagic, 42, 0x7FFFFFFF, "is not here"},
      {kZipEndMagic, 8, 0x20002, "51 bytes claims 2 members"},
      {kZipEndMagic, 8, 0xFFFFFFFF, "claims 65535 members"},
      {kZipEndMagic, 8, 0, "directory goes on behind its 0 members"},
      {kZipEndMagic, 12, 0x7FFFFFFF, "directory does not end where"},
      {kZipEndMagic, 16, 0x7FFFFFFF, "directory does not end where"},
      {kZipEndMagic, 0, 0, "has its directory here, found none"},
  };
  ASSERT_EQ(SmallArray().size(), 70u);
  for (const auto& row : rows) {
    EXPECT_THAT(ParseArchive(With(good, row.magic, row.offset, row.value)),
                FailsNaming(StatusCode::kDataLoss, row.part))
        << row.part;
  }
}

TEST(NpzTest, MembersThatShareBytesAreDataLoss) {
  // The second entry of the directory is made to point to the first member.
  std::string bytes = Zip({{"a.npy", SmallArray()}, {"a.npy", SmallArray()}});
  EXPECT_THAT(ParseArchive(With<uint32_t>(bytes, kZipEntryMagic, 42, 0)),
              FailsNaming(StatusCode::kDataLoss, "overlap"));
}

TEST(NpzTest, ClaimThatDeflateCannotKeepIsDataLoss) {
  const std::string good = FromHex(kCompressedHex);
  EXPECT_THAT(
      ParseArchive(With<uint32_t>(good, kZipEntryMagic, 24, 0x7FFFFFFF)),
      FailsNaming(StatusCode::kDataLoss, "claims 2147483647 bytes"));
}

TEST(NpzTest, PackedDataOfAnotherLengthIsDataLoss) {
  const std::string good = FromHex(kCompressedHex);
  EXPECT_THAT(ParseArchive(With<uint32_t>(good, kZipEntryMagic, 24, 5)),
              FailsNaming(StatusCode::kDataLoss, "goes on after 5 bytes"));
  EXPECT_THAT(ParseArchive(With<uint32_t>(good, kZipEntryMagic, 24, 1000)),
              FailsNaming(StatusCode::kDataLoss, "ends after 130 bytes"));
  EXPECT_THAT(ParseArchive(With<uint32_t>(good, kZipEntryMagic, 20, 20)),
              FailsNaming(StatusCode::kDataLoss, "is cut short after"));
}

TEST(NpzTest, EveryTruncationIsDataLoss) {
  for (const std::string& good :
       {FromHex(kCompressedHex), Zip({{"a.npy", SmallArray()}}),
        Zip({{"a.npy", SmallArray()}}, 1)}) {
    ASSERT_TRUE(ParseArchive(good).ok());
    for (size_t size = 0; size < good.size(); ++size) {
      const std::vector<uint8_t> cut(good.begin(), good.begin() + size);
      EXPECT_THAT(ParseNpz(cut, "x.npz"),
                  FailsNaming(StatusCode::kDataLoss, ""));
    }
  }
}

TEST(NpzTest, EveryChangedByteGivesAValueOrAnErrorWithAPlace) {
  for (const std::string& good :
       {FromHex(kCompressedHex), Zip({{"a.npy", SmallArray()}}),
        Zip({{"a.npy", SmallArray()}}, 1)}) {
    for (size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; value += 3) {
        std::string bytes = good;
        bytes[at] = static_cast<char>(bytes[at] ^ value);
        const auto tensors = ParseArchive(bytes);
        if (tensors.ok()) continue;
        EXPECT_EQ(MessageOf(tensors.status()).substr(0, 7), "x.npz: ");
      }
    }
  }
}

}  // namespace
}  // namespace nodewise

#pragma once

#include <cstddef>
#include <cstdint>

namespace nodewise {

// The records of a zip archive, from PKWARE's APPNOTE.TXT 6.3.10
// (docs/formats/npz.md). All fields are little-endian.
inline constexpr uint32_t kZipLocalMagic = 0x04034b50;
inline constexpr uint32_t kZipEntryMagic = 0x02014b50;
inline constexpr uint32_t kZipEndMagic = 0x06054b50;
inline constexpr uint32_t kZip64EndMagic = 0x06064b50;
inline constexpr uint32_t kZip64LocatorMagic = 0x07064b50;

// Sizes of their fixed parts.
inline constexpr size_t kZipLocalBytes = 30;
inline constexpr size_t kZipEntryBytes = 46;
inline constexpr size_t kZipEndBytes = 22;
inline constexpr size_t kZip64EndBytes = 56;
inline constexpr size_t kZip64LocatorBytes = 20;

inline constexpr uint16_t kZipStored = 0;
inline constexpr uint16_t kZipDeflated = 8;

// A 32-bit field with this value stands for one in the zip64 extra field.
inline constexpr uint32_t kZipInExtra = 0xFFFFFFFF;
inline constexpr uint16_t kZip64Extra = 0x0001;

}  // namespace nodewise

// SPDX-License-Identifier: Apache-2.0
// mapped_image: the bytes of a program's file, mapped for reading; loaded_image_of: the file that
// an address of code comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gyre::detail {

/// A file that is mapped for reading; empty if it cannot be read.
///
/// Lifetime: must not be used after another program has truncated the file; files of running
/// programs are replaced, not truncated.
class mapped_image {
 public:
  explicit mapped_image(const char* path) noexcept;
  mapped_image(const mapped_image&) = delete;
  mapped_image& operator=(const mapped_image&) = delete;
  ~mapped_image();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// A program or a shared library that is loaded, and an address in it.
struct loaded_image {
  std::string path;          ///< for people: the file may have been replaced since
  bool is_program = false;   ///< whether /proc/self/exe is the file, even after a replacement
  std::uint64_t offset = 0;  ///< the address, as the file counts addresses
};

/// Returns the image that has the code at `address`; nothing if there is none. Throws
/// std::bad_alloc.
std::optional<loaded_image> loaded_image_of(std::uint64_t address);

}  // namespace gyre::detail

// SPDX-License-Identifier: Apache-2.0
// Helpers for fuzz targets. A target is a file that defines LLVMFuzzerTestOneInput, derives its
// decisions from the input bytes, and calls require() for every property that must hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <span>
#include <string_view>

/// Runs one input, deterministically. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace gyre::fuzz {

/// Ends the program, and with it the search, unless `holds`.
inline void require(bool holds, std::source_location where = std::source_location::current()) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "%s:%u: what must hold does not\n", where.file_name(),
               static_cast<unsigned>(where.line()));
  std::abort();
}

/// Reads decisions from an input; after its end they are zeros and empty texts.
class decisions {
 public:
  decisions(const std::uint8_t* data, std::size_t size) noexcept : left_(data, size) {}

  [[nodiscard]] bool empty() const noexcept { return left_.empty(); }

  std::uint8_t byte() noexcept {
    if (left_.empty()) return 0;
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  /// A number from zero to `bound` - 1; `bound` is at most 65536.
  std::size_t below(std::size_t bound) noexcept {
    std::size_t number = byte();
    if (bound > 256) number = number << 8 | byte();
    return number % bound;
  }
  bool flip() noexcept { return (byte() & 1) != 0; }
  /// The next `count` bytes of the input, or as many as there are.
  std::string_view text(std::size_t count) noexcept {
    const std::span<const std::uint8_t> taken = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string_view rest() noexcept { return text(left_.size()); }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace gyre::fuzz

// SPDX-License-Identifier: Apache-2.0
// put_status_line: the first line of a response, appended to a buffer.
#pragma once

#include <gyre/http/status.hpp>
#include <gyre/io/buffer.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gyre::http::detail {

/// In base 10 or 16, without leading zeros.
inline void put_number(io::buffer& to, std::uint64_t number, int base = 10) {
  std::array<char, 20> digits;
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, base);
  to.append(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

/// Also of statuses without a known phrase.
inline void put_status_line(io::buffer& to, status code) {
  if (code == status::ok) return to.append("HTTP/1.1 200 OK\r\n");
  to.append("HTTP/1.1 ");
  put_number(to, to_number(code));
  to.append(" ");
  to.append(reason_phrase(code));
  to.append("\r\n");
}

}  // namespace gyre::http::detail

// SPDX-License-Identifier: Apache-2.0
// backend_message: a message of a PostgreSQL server, found in received bytes without I/O.
#pragma once

#include <gyre/engines/postgres/error.hpp>
#include <gyre/io/input.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

namespace gyre::postgres::detail {

/// The kinds of messages that a server sends: the first byte.
enum class message_kind : char {
  authentication = 'R',
  backend_key = 'K',
  bind_complete = '2',
  close_complete = '3',
  command_complete = 'C',
  copy_both = 'W',
  copy_data = 'd',
  copy_done = 'c',
  copy_in = 'G',
  copy_out = 'H',
  data_row = 'D',
  empty_query = 'I',
  error = 'E',
  negotiate_version = 'v',
  no_data = 'n',
  notice = 'N',
  notification = 'A',
  parameter_description = 't',
  parameter_status = 'S',
  parse_complete = '1',
  portal_suspended = 's',
  ready = 'Z',
  row_description = 'T',
};

struct backend_message {
  message_kind kind;
  std::span<const std::byte> body;
};

/// The part of a connection's life, which decides on its messages.
enum class connection_phase : std::uint8_t {
  login,  ///< messages of a login, of at most 64 KiB
  ready,
};

/// Consumes the message at the front of `input`; returns std::nullopt while its rest has not come.
/// `body` lives as long as the bytes of `input`.
///
/// Errors: errc::bad_message for a kind that may not come, or a length that the kind cannot have;
/// errc::message_too_large for a body above `max_size`. Both are noticed by the first five bytes,
/// so that the client neither waits for nor stores what a hostile length announces.
/// Complexity: looks at five bytes, however large the message is, and however often it is called.
std::expected<std::optional<backend_message>, errc> take_message(io::input& input,
                                                                 connection_phase phase,
                                                                 std::size_t max_size) noexcept;

}  // namespace gyre::postgres::detail

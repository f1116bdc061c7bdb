// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/backend_message.hpp>

#include <algorithm>
#include <limits>

namespace gyre::postgres::detail {
namespace {

constexpr std::size_t header_size = 5;
constexpr std::size_t length_size = 4;
// Before the login, a server that has proved nothing must not make the client keep many bytes.
constexpr std::size_t max_login_message = std::size_t{64} << 10;
// The limit of tags of commands, and of the keys of later versions of the protocol.
constexpr std::size_t max_short_message = 1024;

struct size_range {
  std::size_t min;
  std::size_t max;
};

constexpr size_range no_size{1, 0};
constexpr size_range any_size{0, std::numeric_limits<std::size_t>::max()};

size_range body_sizes(message_kind kind) noexcept {
  switch (kind) {
    case message_kind::bind_complete:
    case message_kind::close_complete:
    case message_kind::copy_done:
    case message_kind::empty_query:
    case message_kind::no_data:
    case message_kind::parse_complete:
    case message_kind::portal_suspended: return {0, 0};
    case message_kind::ready: return {1, 1};
    case message_kind::command_complete: return {1, max_short_message};
    case message_kind::backend_key: return {8, max_short_message};
    case message_kind::authentication: return {4, max_login_message};
    case message_kind::negotiate_version: return {8, max_login_message};
    case message_kind::parameter_status: return {2, max_login_message};
    case message_kind::notification: return {6, max_login_message};
    case message_kind::copy_in:
    case message_kind::copy_out: return {3, max_login_message};
    case message_kind::data_row:
    case message_kind::row_description:
    case message_kind::parameter_description: return {2, any_size.max};
    case message_kind::copy_data: return any_size;
    case message_kind::error:
    case message_kind::notice: return {1, any_size.max};
    case message_kind::copy_both: break;  // only replication uses this message
  }
  return no_size;
}

bool belongs_to_login(message_kind kind) noexcept {
  switch (kind) {
    case message_kind::authentication:
    case message_kind::backend_key:
    case message_kind::error:
    case message_kind::negotiate_version:
    case message_kind::notice:
    case message_kind::parameter_status:
    case message_kind::ready: return true;
    default: return false;
  }
}

size_range body_sizes(message_kind kind, connection_phase phase) noexcept {
  size_range sizes = body_sizes(kind);
  if (phase == connection_phase::login) {
    if (!belongs_to_login(kind)) return no_size;
    sizes.max = std::min(sizes.max, max_login_message);
  } else if (kind == message_kind::authentication || kind == message_kind::negotiate_version ||
             kind == message_kind::backend_key) {
    return no_size;
  }
  return sizes;
}

}  // namespace

std::expected<std::optional<backend_message>, errc> take_message(io::input& input,
                                                                 connection_phase phase,
                                                                 std::size_t max_size) noexcept {
  if (input.empty()) return std::nullopt;
  const auto kind = static_cast<message_kind>(std::to_integer<char>(*input.data()));
  const size_range sizes = body_sizes(kind, phase);
  if (sizes.min > sizes.max) return std::unexpected(errc::bad_message);
  const std::optional<std::uint32_t> length = input.peek<std::uint32_t>(1);
  if (!length) return std::nullopt;
  if (*length < length_size) return std::unexpected(errc::bad_message);
  const std::size_t size = *length - length_size;
  if (size < sizes.min) return std::unexpected(errc::bad_message);
  if (size > sizes.max) {
    return std::unexpected(phase == connection_phase::login ? errc::message_too_large
                                                            : errc::bad_message);
  }
  if (size > max_size) return std::unexpected(errc::message_too_large);
  if (input.size() - header_size < size) return std::nullopt;
  input.consume(header_size);
  return backend_message{kind, input.take(size)};
}

}  // namespace gyre::postgres::detail

// SPDX-License-Identifier: Apache-2.0
// read_server_message: reads an error or a notice of PostgreSQL.
#pragma once

#include <gyre/engines/postgres/server_message.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace gyre::postgres::detail {

/// Reads the body of an ErrorResponse or a NoticeResponse; std::nullopt if it is neither. Keeps at
/// most 64 KiB of each field, and skips those that it does not know. Throws std::bad_alloc.
std::optional<server_message> read_server_message(std::span<const std::byte> body);

/// Whether the server ends the connection after the error.
bool ends_connection(const server_message& error) noexcept;

}  // namespace gyre::postgres::detail

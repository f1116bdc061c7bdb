// SPDX-License-Identifier: Apache-2.0
// connection_options: the settings of one connection to PostgreSQL.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/postgres/detail/credentials.hpp>
#include <gyre/engines/postgres/detail/message_writer.hpp>
#include <gyre/engines/postgres/server_message.hpp>
#include <gyre/tls/tls_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::postgres::detail {

class connection_core;

/// The way in which a connection is encrypted. There is no mode that falls back to plain bytes.
enum class tls_mode : std::uint8_t {
  off,
  negotiate,  ///< the server is asked first (SSLRequest), which every version understands
  direct,     ///< TLS from the first byte, with ALPN "postgresql": PostgreSQL 17 and later
};

/// Whether a login by SCRAM is bound to the server's certificate (SCRAM-SHA-256-PLUS), so that an
/// attacker between client and server cannot use it.
enum class channel_binding : std::uint8_t {
  prefer,   ///< binds if TLS is used and the server offers it
  require,  ///< errc::channel_binding_missing otherwise, also for a server that asks no password
  disable,
};

/// Receives messages that belong to no statement.
///
/// Lifetime: must outlive the connection. Functions are called on the loop, within the connection's
/// turns; they must not destroy the connection.
class connection_observer {
 public:
  connection_observer() noexcept = default;
  connection_observer& operator=(connection_observer&&) = delete;
  virtual ~connection_observer() = default;

  /// The login is done, and no call is admitted yet: connection_core::append_internal_script()
  /// enters scripts that the connection needs, such as LISTEN.
  virtual void on_login(connection_core& /*connection*/) {}
  virtual void on_notification(std::string_view /*channel*/, std::string_view /*payload*/,
                               std::int32_t /*process*/) noexcept {}
  virtual void on_notice(const server_message& /*notice*/) noexcept {}
};

struct connection_options {
  const char* name = "gyre::postgres::client";   ///< the name of the client in messages
  std::shared_ptr<credentials> login = nullptr;  ///< the user and the password; not null
  std::string database = {};                     ///< the database; empty: that of the user's name
  /// Settings of the session, such as {"application_name", "shop"}; they cost no round trip.
  parameter_list parameters = {};

  tls_mode encryption = tls_mode::off;
  tls::tls_context tls = {};  ///< the context; not empty unless `encryption` is off
  channel_binding binding = channel_binding::prefer;
  /// Whether a server may ask for MD5, whose proof is as good as the password for anyone who can
  /// read the server's tables; and whether it may ask for the password itself.
  bool allow_md5 = false;
  bool allow_cleartext_password = false;

  /// Bytes of a message of the server. A longer one ends the connection with
  /// errc::message_too_large.
  std::size_t max_message = std::size_t{64} << 20;
  std::size_t max_in_flight = 256;
  std::size_t max_waiting = 64 * 1024;
  /// Statements that the server keeps prepared; the one not used for longest is dropped.
  std::size_t max_statements = 256;
  /// Whether statements come in binary format, by the type of the column; null: none.
  bool (*is_binary)(std::uint32_t type) = nullptr;

  /// Whether callers share it. Then a statement that leaves a transaction open ends the connection,
  /// because statements of others would be in that transaction.
  bool is_shared = true;
  /// Whether the client connects again when the connection has ended. A session of one caller does
  /// not.
  bool reconnects = true;
  /// The attempts in a row after which the calls that wait for a connection fail.
  std::size_t max_connect_attempts = 5;
  duration connect_timeout = std::chrono::seconds{5};
  duration initial_delay = std::chrono::milliseconds{100};
  duration longest_delay = std::chrono::seconds{5};

  /// The longest time without a byte while a reply is due; zero (no limit) by default, because
  /// statements may take long. Should be longer than `statement_timeout` of the server.
  duration reply_timeout = duration::zero();
  duration ping_interval =
      std::chrono::seconds{30};  ///< the time without a byte until the server is asked
  duration ping_timeout =
      std::chrono::seconds{10};  ///< the time for a reply, also to the steps of a login
  /// The time for which a statement without a waiting caller may still run, before the server is
  /// asked to cancel it.
  duration cancel_delay = std::chrono::milliseconds{20};
  duration cancel_timeout =
      std::chrono::seconds{10};  ///< the time until the connection is given up

  connection_observer* observer = nullptr;
};

}  // namespace gyre::postgres::detail

// SPDX-License-Identifier: Apache-2.0
// redis::errc, redis::server_error: errors of a Redis client, and those that the server replies.
//
//     try {
//       co_await cache.call<void>("LPUSH", "visits", "x");  // a string, not a list
//     } catch (const gyre::redis::server_error& error) {
//       if (error.code() != gyre::redis::errc::wrong_type) throw;
//     }
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace gyre::redis {

/// Errors of a client, and the kinds of errors that a server replies.
enum class errc {
  // The next codes are errors of the connection.

  /// The connection ended before the reply came: the command may have been carried out, or not;
  /// std::errc::connection_reset.
  connection_lost = 1,
  /// No byte of a reply came within client_options::reply_timeout; std::errc::timed_out.
  no_reply = 2,
  /// Bytes that are not a reply of the protocol; std::errc::protocol_error.
  bad_reply = 3,
  /// A reply above client_options::max_reply; std::errc::message_size.
  reply_too_large = 4,
  /// The command waits in the server, would keep the shared connection from all others, or changes
  /// its state: use a session.
  needs_session = 5,
  /// The server is older than the function needs; std::errc::operation_not_supported.
  not_supported = 6,
  /// A command that would change the protocol of the connection, such as MONITOR and RESET. Use
  /// client::subscribe() for SUBSCRIBE, and client_options for HELLO.
  command_refused = 7,
  /// More than client_options::max_sessions; std::errc::resource_unavailable_try_again.
  too_many_sessions = 8,
  /// cached_client::read() of a command that does not read one key, or writes.
  not_cacheable = 9,

  // The next codes are errors of replies whose type the program did not expect.

  null_reply = 20,  ///< there is no value: ask for a std::optional
  unexpected_type = 21,
  out_of_range = 22,  ///< a number that the type cannot hold; std::errc::result_out_of_range
  /// A transaction whose watched keys have changed was not carried out.
  transaction_aborted = 23,

  // The next codes are errors that the server reports, by the first word of their text.

  server = 40,      ///< ERR, or a word that is not below
  wrong_type = 41,  ///< WRONGTYPE: the key holds another kind of value
  no_script = 42,
  busy_script = 43,
  busy_key = 44,
  busy_group = 45,
  no_group = 46,
  no_auth = 47,         ///< std::errc::permission_denied, as are the next two
  wrong_password = 48,  ///< WRONGPASS
  no_permission = 49,
  loading = 50,  ///< std::errc::resource_unavailable_try_again, as are the next three
  master_down = 51,
  try_again = 52,
  cluster_down = 53,
  read_only = 54,      ///< std::errc::read_only_file_system
  out_of_memory = 55,  ///< OOM: the server's `maxmemory`
  exec_aborted = 56,
  moved =
      57,  ///< MOVED or ASK: the server is a part of a cluster, which this client does not follow
  no_replicas = 58,
  misconfigured = 59,  ///< MISCONF: the server cannot persist, and so does not write
};

/// The category of errc, "gyre.redis". Any thread.
const std::error_category& redis_category() noexcept;
std::error_code make_error_code(errc code) noexcept;

/// An error that the server has replied. The connection remains of use.
class server_error : public std::system_error {
 public:
  /// `text` as it came, such as "WRONGTYPE Operation against a key holding the wrong kind of
  /// value".
  explicit server_error(std::string text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

namespace detail {

/// The code of an error whose text begins with the name of its kind.
errc code_of(std::string_view text) noexcept;

}  // namespace detail

}  // namespace gyre::redis

template <>
struct std::is_error_code_enum<gyre::redis::errc> : std::true_type {};

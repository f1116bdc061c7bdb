// SPDX-License-Identifier: Apache-2.0
// resolve_errc: errors of name lookups.
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre::net {

/// Errors of name lookups, besides std::errc::not_enough_memory.
enum class resolve_errc {
  host_not_found = 1,  ///< the name does not exist
  no_data,             ///< the name exists, but has no address, or none of the kind asked for
  timed_out,           ///< no server answered in time; also equal to std::errc::timed_out
  server_failure,      ///< SERVFAIL, or the server did not understand the query
  refused,             ///< the server does not answer such queries (REFUSED)
  bad_name,            ///< it cannot be a name: empty, too long, a label above 63 bytes
  bad_response,        ///< the answer is malformed
  no_server,           ///< no server could be reached, or each of several failed
  service_not_found,   ///< no port of that name is known
  resolver_destroyed,  ///< during the lookup; also equal to std::errc::operation_canceled
  /// A number that is not an address of four decimal parts, such as "127.1", "0x7f.1" or
  /// "2130706433"; also equal to std::errc::invalid_argument.
  numeric_host,
};

/// The category of resolve_errc, named "resolve".
const std::error_category& resolve_category() noexcept;

inline std::error_code make_error_code(resolve_errc error) noexcept {
  return {static_cast<int>(error), resolve_category()};
}

}  // namespace gyre::net

template <>
struct std::is_error_code_enum<gyre::net::resolve_errc> : std::true_type {};

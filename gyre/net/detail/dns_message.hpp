// SPDX-License-Identifier: Apache-2.0
// dns_message: decodes answers of name servers (RFC 1035) and their times to live.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/resolver_options.hpp>

#include <chrono>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace gyre::net::detail {

enum class record_type : std::uint16_t { a = 1, ptr = 12, txt = 16, aaaa = 28, srv = 33 };

/// A whole message of a name server, undecoded.
using dns_message = std::span<const unsigned char>;

/// The time to live (TTL) of an answer: the time for which it may be cached.
struct answer_ttl {
  std::chrono::seconds time{0};  ///< zero: must not be cached
  bool negative = false;         ///< whether there is no such name or record
};

/// Returns the time to live (TTL) of an answer: the shortest TTL of its records; for a negative
/// answer (RFC 2308) also that of the SOA record, and its minimum. Zero for a message that is
/// truncated or malformed, or reports a failure of the server.
answer_ttl ttl_of(dns_message message) noexcept;

/// Returns the error for a status of c-ares.
std::error_code dns_error(int status);

using address_result = std::expected<std::vector<ip_address>, std::error_code>;
/// Returns the addresses of `type` (a or aaaa), at least one. Errors: resolve_errc,
/// not_enough_memory. Throws std::bad_alloc.
address_result decode_addresses(record_type type, dns_message message);

/// Returns the records of an SRV answer in the order in which to try them (RFC 2782), which is
/// random by weight among those of one priority. Errors: as decode_addresses(), and no_data if the
/// service is declared to be unavailable. Throws std::bad_alloc.
srv_result decode_srv(dns_message message);
/// Returns the texts of a TXT answer, each joined from its parts, or the names of a PTR answer.
text_result decode_texts(record_type type, dns_message message);

/// Puts records into the order in which to try them (RFC 2782). `random_below` returns a random
/// number from zero up to its argument minus one.
void sort_srv_records(std::vector<srv_record>& records,
                      move_only_function<std::uint32_t(std::uint32_t)> random_below);

/// Returns the name to query for the names of an address.
std::string reverse_name(const ip_address& address);

}  // namespace gyre::net::detail

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

/// A whole message, as it came.
using dns_message = std::span<const unsigned char>;

/// How long an answer may be kept.
struct answer_lifetime {
  std::chrono::seconds time{0};  ///< zero: it may not
  bool negative = false;         ///< it says that there is no such name or record
};

/// Reads the lifetime of an answer: the shortest TTL of its records; for a negative one (RFC 2308)
/// also that of the SOA record, and its minimum. Zero for a message that is cut off, tells of a
/// failure of the server, or makes no sense.
answer_lifetime lifetime_of(dns_message message) noexcept;

/// The error that a status of c-ares stands for.
std::error_code dns_error(int status);

using address_result = std::expected<std::vector<ip_address>, std::error_code>;
/// The addresses of `type` (a or aaaa), at least one. Errors: resolve_errc, not_enough_memory.
/// Throws std::bad_alloc.
address_result decode_addresses(record_type type, dns_message message);

/// The records of an SRV answer, in the order in which they are to be tried (RFC 2782), the chance
/// among those of one priority included. Errors as above, also no_data if the service is said not
/// to be there. Throws std::bad_alloc.
srv_result decode_srv(dns_message message);
/// The texts of a TXT answer, the parts of each joined; the names of a PTR answer.
text_result decode_texts(record_type type, dns_message message);

/// Puts records into the order in which to try them (RFC 2782). `below` gives a random number from
/// zero up to its argument minus one.
void sort_srv_records(std::vector<srv_record>& records,
                      move_only_function<std::uint32_t(std::uint32_t)> below);

/// The name by which the names of an address are asked for.
std::string reverse_name(const ip_address& address);

}  // namespace gyre::net::detail

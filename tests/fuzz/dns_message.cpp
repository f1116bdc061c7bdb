// SPDX-License-Identifier: Apache-2.0
// Fuzz target: answers of name servers. Parsing stays within the message, and cached records are
// plausible.
#include <gyre/net/detail/dns_message.hpp>

#include <tests/fuzz/fuzz.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gyre::net::detail;
  const dns_message message(data, size);
  const answer_ttl ttl = ttl_of(message);
  gyre::fuzz::require(ttl.time >= std::chrono::seconds(0));
  gyre::fuzz::require(ttl.time < std::chrono::seconds(std::uint32_t{1} << 31));
  for (const record_type type : {record_type::a, record_type::aaaa}) {
    const auto addresses = decode_addresses(type, message);
    gyre::fuzz::require(!addresses || !addresses->empty());
  }
  if (const auto servers = decode_srv(message)) {
    for (const auto& each : *servers) gyre::fuzz::require(!each.target.empty());
  }
  static_cast<void>(decode_texts(record_type::txt, message));
  static_cast<void>(decode_texts(record_type::ptr, message));
  return 0;
}

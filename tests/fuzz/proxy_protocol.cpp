// SPDX-License-Identifier: Apache-2.0
// Fuzz target: headers of the PROXY protocol. Bytes behind a header do not change its meaning, and
// a part of a header is accepted neither as a whole one nor refused as invalid.
#include <gyre/net/proxy_protocol.hpp>

#include <tests/fuzz/fuzz.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gyre::net::parse_proxy_header;
  constexpr std::size_t limit = 600;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parsed = parse_proxy_header(bytes, limit);
  if (!parsed || !*parsed) return 0;
  const std::size_t header = (*parsed)->size;
  gyre::fuzz::require(header > 0 && header <= size && header <= limit);
  gyre::fuzz::require((*parsed)->source.family() == (*parsed)->destination.family());
  for (std::size_t part = 0; part < header; ++part) {
    const auto begun = parse_proxy_header(bytes.first(part), limit);
    gyre::fuzz::require(begun && !*begun);
  }
  const auto alone = parse_proxy_header(bytes.first(header), limit);
  gyre::fuzz::require(alone && *alone && (*alone)->source == (*parsed)->source &&
                      (*alone)->values.size() == (*parsed)->values.size());
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// waiting_lookup: a lookup that waits for its result, of a callback or a coroutine.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/net/resolver_options.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace gyre::net::detail {

class name_engine;
struct question;

struct lookup_kind {
  // The delay after which the lookup completes with the addresses of one IP version (RFC 8305,
  // section 3); with those of the preferred version it completes at once. Without a delay the
  // lookup waits for all addresses.
  std::optional<duration> resolution_delay = {};
  std::uint16_t records = 0;  // the record type to look up; 0 stands for addresses
};

/// A lookup under way, linked into the list of its question or of the completed lookups.
struct waiting_lookup : intrusive_list_node {
  using function = void (*)(waiting_lookup&);
  explicit waiting_lookup(function callback) noexcept : complete(callback) {}

  bool active() const noexcept { return is_linked(); }

  const function complete;  // called once on the loop's thread, after unlinking
  name_engine* owner = nullptr;
  question* current_question = nullptr;  // null after the result has come
  std::uint16_t port = 0;
  lookup_kind kind = {};
  resolve_result result;               // the addresses; of a lookup for records, only the error
  std::vector<unsigned char> message;  // the response to a lookup for records
};

}  // namespace gyre::net::detail

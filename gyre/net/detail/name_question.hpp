// SPDX-License-Identifier: Apache-2.0
// question: a name that a resolver asks servers for, its queries, and the lookups that wait for it.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/detail/dns_channel.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/resolver.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net::detail {

struct question;

/// A query of a question for the name whose turn it is.
struct dns_query {
  question* owner = nullptr;
  record_type type = record_type::a;
  std::expected<std::vector<ip_address>, std::error_code> answer;  // nothing yet: empty
  std::vector<unsigned char> message = {};                         // of other records: as it came
};

/// A name as host_key() spells it, with a dot if it had one at its end, and a record type: zero for
/// addresses.
using question_key = std::pair<std::string, std::uint16_t>;

/// A dot at the end of `host` keeps search domains away: another question. Throws std::bad_alloc.
question_key key_for(const waiting_lookup& lookup, std::string_view host);

/// | state     | there is room | query answered    | all answered        | no lookup waits |
/// |-----------|---------------|-------------------|---------------------|-----------------|
/// | queued    | in flight     | -                 | -                   | ended           |
/// | in flight | -             | may complete some | next name, or ended | abandoned       |
/// | abandoned | -             | abandoned         | ended               | -               |
///
/// An answer of one IP version may complete the lookups that do not need both. A new lookup of the
/// name takes an abandoned question back in flight. An abandoned question also ends with its
/// channel.
struct question : intrusive_list_node {
  name_engine* engine = nullptr;
  const question_key* key = nullptr;
  intrusive_list<waiting_lookup> waiting;
  dns_channel* channel = nullptr;  // null while it is queued

  std::vector<std::string> names = {};  // to be tried in turn
  std::size_t tried = 0;                // so many names
  std::vector<dns_query> queries = {};  // for the name tried last
  std::size_t unanswered = 0;           // so many queries
  bool starting_queries = false;
  std::error_code failure = {};                // of the names before
  steady_time first_known{};                   // when a version's addresses were, with the timer
  std::optional<timer> resolution_delay = {};  // of lookups that wait for the other version

  /// Whether a query has found anything.
  bool has_answer() const;
  /// The addresses found so far, the best first.
  std::vector<ip_address> addresses() const;
  /// The gravest failure of its queries.
  std::error_code query_failure() const;
};

/// The failure to report of two: a name that exists rather than one that does not, and rather than
/// both one that may not last.
std::error_code graver(std::error_code one, std::error_code other);

/// Without the dot that keeps search domains away.
std::string_view plain_name(std::string_view name);

}  // namespace gyre::net::detail

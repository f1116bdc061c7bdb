// SPDX-License-Identifier: Apache-2.0
// name_engine: a resolver's questions, their channels to name servers, and the waiting lookups.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/detail/destination_order.hpp>
#include <gyre/net/detail/dns_cache.hpp>
#include <gyre/net/detail/dns_channel.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/detail/file_version.hpp>
#include <gyre/net/detail/hosts_file.hpp>
#include <gyre/net/detail/waiting_lookup.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolver_options.hpp>
#include <gyre/net/service.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net::detail {

/// The failure to report of two: that of a name that exists before none, a passing one before both.
std::error_code graver(std::error_code one, std::error_code other);

/// A query of a question for the name whose turn it is.
struct dns_query {
  question* owner = nullptr;
  record_type type = record_type::a;
  address_result answer;                    // nothing yet: empty
  std::vector<unsigned char> message = {};  // of other records: as it came
};

/// A name as host_key() spells it, with the dot at its end, if any; a record type, 0 for addresses.
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
/// name takes an abandoned question back in flight, unless it has ended with its channel.
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
  bool has_answer() const {
    return std::ranges::any_of(queries, [](const dns_query& each) {
      return each.answer && (!each.answer->empty() || !each.message.empty());
    });
  }
  /// The addresses found so far, the best first.
  std::vector<ip_address> addresses() const {
    std::vector<ip_address> result;
    for (const dns_query& each : queries) {
      if (each.answer) result.insert(result.end(), each.answer->begin(), each.answer->end());
    }
    sort_destinations(result);
    return result;
  }
  /// The gravest failure of its queries.
  std::error_code query_failure() const {
    std::error_code error;
    for (const dns_query& each : queries) {
      if (!each.answer) error = graver(error, each.answer.error());
    }
    return error;
  }
};

/// Without the dot that keeps search domains away.
std::string_view plain_name(std::string_view name);

/// The callbacks of c-ares only note results; deliver_completions() calls users' functions when
/// c-ares has returned. So these may do anything, destroying the resolver included, and no
/// exception meets a frame of C.
///
/// c-ares cannot end a single query. A question for which no lookup waits makes room for another at
/// once, and stays in its channel, abandoned. When a channel has too many of these, new questions
/// go to a new one, and the old one is destroyed, with all its queries, once no lookup waits for
/// any of them. So waiting lookups are not disturbed, and silence does not accumulate.
///
/// Thread-safety: loop(), closed() and the destructor of a closed engine may be called from any
/// thread (coroutines on other threads share the engine), the rest on the loop's.
class name_engine final : public std::enable_shared_from_this<name_engine> {
 public:
  name_engine(event_loop& loop, resolver_options options);
  name_engine(const name_engine&) = delete;
  name_engine& operator=(const name_engine&) = delete;
  ~name_engine();

  event_loop& loop() const noexcept { return loop_; }
  /// Completes all lookups, as cancelled. Afterwards the engine holds nothing of the loop.
  void close() noexcept;
  bool closed() const noexcept { return closed_; }
  std::size_t pending() const noexcept { return pending_; }
  std::size_t abandoned() const noexcept;
  dns_cache& cache() noexcept { return cache_; }

  /// The result, if that needs no server: of numbers, the hosts file, the cache.
  std::optional<resolve_result> resolve_locally(waiting_lookup& lookup, std::string_view host,
                                                const service& port);
  /// Asks servers for `host`, and completes `lookup` later.
  void start_query(waiting_lookup& lookup, std::string_view host, const service& port);
  /// Completes `lookup` with `result`, later.
  void complete_later(waiting_lookup& lookup, resolve_result result) noexcept;
  /// False if the lookup was completed already.
  bool cancel(waiting_lookup& lookup) noexcept;
  /// Called after c-ares has handled sockets or a time-out. May destroy channels.
  void servers_processed();

 private:
  static void on_answer(void* query, int status, int timeouts, unsigned char* message,
                        int size) noexcept;

  dns_channel* channel_for_next() noexcept;
  void start_queued() noexcept;
  void start(question& entry, dns_channel& channel) noexcept;
  void query_next_name(question& entry) noexcept;
  void advance(question& entry) noexcept;
  void decode_answer(dns_query& query, int status, dns_message message) noexcept;
  void complete_first_family(question& entry) noexcept;
  bool is_preferred(const endpoint& address) const noexcept;
  void end(question& entry, const resolve_result& result) noexcept;
  void cancel_abandoned() noexcept;
  resolve_result result_of(const question& entry);
  static void set_result(waiting_lookup& lookup, const question& entry,
                         const resolve_result& result) noexcept;
  void queue_completion(waiting_lookup& lookup) noexcept;
  void deliver_completions();

  std::vector<dns_query> queries_for(question& entry) const;
  std::vector<std::string> names_for(const question_key& key) const;
  void reload_if_changed() noexcept;
  const std::vector<ip_address>* from_hosts(std::string_view key);
  std::optional<resolve_result> from_cache(waiting_lookup& lookup, const question_key& key);
  bool is_requested(const ip_address& address) const noexcept;
  resolve_result select_addresses(const std::vector<ip_address>& addresses,
                                  std::uint16_t port) const;

  event_loop& loop_;
  const resolver_options options_;
  hosts_file hosts_;
  file_version resolv_conf_;
  dns_cache cache_;
  bool closed_ = false;

  std::list<dns_channel> channels_;  // the last one takes new questions
  std::map<question_key, question> questions_;
  intrusive_list<question> queue_;
  std::size_t awaited_in_flight_ = 0;         // questions in flight that are not abandoned
  intrusive_list<waiting_lookup> completed_;  // their functions are to be called
  std::size_t pending_ = 0;

  std::optional<timer> delivery_;
};

}  // namespace gyre::net::detail

// SPDX-License-Identifier: Apache-2.0
// name_engine: a resolver's questions, their channels to name servers, and the waiting lookups.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/ticks.hpp>
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
#include <gyre/trace/detail/recorder.hpp>

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

/// Returns the failure to report of two: no_data, where the name exists, ranks above
/// host_not_found, and any other failure above both.
std::error_code graver(std::error_code left, std::error_code right);

/// A query for the current name of a question.
struct dns_query {
  question* owner = nullptr;
  record_type type = record_type::a;
  address_result answer;  // empty until the query has ended
  // The response to a query for records other than addresses.
  std::vector<unsigned char> message = {};
};

/// A name in the form of host_key(), but with its final dot, if any, and a record type, 0 for
/// addresses.
using question_key = std::pair<std::string, std::uint16_t>;

/// Returns the key of a lookup. A final dot of `host` excludes search domains, so that it makes
/// another question. Throws std::bad_alloc.
question_key key_for(const waiting_lookup& lookup, std::string_view host);

/// A question for name servers, shared by the lookups that wait for its answer.
///
/// | state     | there is room | query answered    | all answered        | no lookup waits |
/// |-----------|---------------|-------------------|---------------------|-----------------|
/// | queued    | in flight     | -                 | -                   | ended           |
/// | in flight | -             | may complete some | next name, or ended | abandoned       |
/// | abandoned | -             | abandoned         | ended               | -               |
///
/// An answer of one IP version may complete the lookups that do not need both. A new lookup of the
/// name takes an abandoned question back in flight, unless the question has ended with its channel.
struct question : intrusive_list_node {
  name_engine* engine = nullptr;
  const question_key* key = nullptr;
  intrusive_list<waiting_lookup> waiting_lookups;
  dns_channel* channel = nullptr;  // null while the question is queued

  // The begin in the flight recorder.
  gyre::detail::tick_count begin_ticks = trace::detail::begin_now();

  std::vector<std::string> names = {};  // the names to try in turn
  std::size_t tried_names = 0;          // the number of names tried
  std::vector<dns_query> queries = {};  // the queries for the name tried last
  std::size_t unanswered_queries = 0;   // the number of queries without an answer
  bool starting_queries = false;
  std::error_code failure = {};  // the gravest failure of the earlier names
  steady_time first_known{};     // the time at which addresses of one IP version became known
  std::optional<timer> resolution_delay = {};  // active while lookups wait for the other version

  /// Whether a query has found any record.
  bool has_answer() const {
    return std::ranges::any_of(queries, [](const dns_query& query) {
      return query.answer && (!query.answer->empty() || !query.message.empty());
    });
  }
  /// The addresses found so far, the best first.
  std::vector<ip_address> addresses() const {
    std::vector<ip_address> result;
    for (const dns_query& query : queries) {
      if (query.answer) result.insert(result.end(), query.answer->begin(), query.answer->end());
    }
    sort_destinations(result);
    return result;
  }
  /// The gravest failure of the queries.
  std::error_code query_failure() const {
    std::error_code error;
    for (const dns_query& query : queries) {
      if (!query.answer) error = graver(error, query.answer.error());
    }
    return error;
  }
};

/// Returns the name without its final dot, which excludes search domains.
std::string_view plain_name(std::string_view name);

/// The lookups of a resolver. The callbacks of c-ares only store results; deliver_completions()
/// calls users' functions when c-ares has returned. So users' functions may do anything, even
/// destroy the resolver, and no exception passes through a frame of C.
///
/// c-ares cannot end a single query. A question for which no lookup waits makes room for another at
/// once, and stays in its channel, abandoned. When a channel has too many abandoned questions, new
/// questions go to a new channel, and the old channel is destroyed, with all its queries, once no
/// lookup waits in it. So waiting lookups are not disturbed, and unanswered queries do not
/// accumulate.
///
/// Thread-safety: loop(), closed() and the destructor of a closed engine may be called from any
/// thread, because coroutines on other threads share the engine; all others belong to the loop's
/// thread.
class name_engine final : public std::enable_shared_from_this<name_engine> {
 public:
  name_engine(event_loop& loop, resolver_options options);
  name_engine(const name_engine&) = delete;
  name_engine& operator=(const name_engine&) = delete;
  ~name_engine();

  event_loop& loop() const noexcept { return loop_; }
  /// Completes all lookups, those without a result with resolve_errc::resolver_destroyed.
  /// Afterwards the engine holds no watches or timers of the loop.
  void close() noexcept;
  bool closed() const noexcept { return is_closed_; }
  std::size_t pending() const noexcept { return pending_lookups_; }
  std::size_t abandoned() const noexcept;
  dns_cache& cache() noexcept { return cache_; }

  /// Returns the result if it needs no server: of numbers, the hosts file, and the cache.
  std::optional<resolve_result> resolve_locally(waiting_lookup& lookup, std::string_view host,
                                                const service& port);
  /// Queries servers for `host`, and completes `lookup` later.
  void start_query(waiting_lookup& lookup, std::string_view host, const service& port);
  /// Completes `lookup` with `result`, later.
  void complete_later(waiting_lookup& lookup, resolve_result result) noexcept;
  /// Cancels a lookup; returns false if the lookup was completed already.
  bool cancel(waiting_lookup& lookup) noexcept;
  /// Called after c-ares has handled sockets or a timeout. May destroy channels.
  void servers_processed();

 private:
  static void on_answer(void* query, int status, int timeouts, unsigned char* message,
                        int size) noexcept;

  dns_channel* channel_for_next() noexcept;
  void start_queued() noexcept;
  void start_question(question& entry, dns_channel& channel) noexcept;
  void query_next_name(question& entry) noexcept;
  void advance_question(question& entry) noexcept;
  void decode_answer(dns_query& query, int status, dns_message message) noexcept;
  void complete_first_family(question& entry) noexcept;
  bool is_preferred(const endpoint& address) const noexcept;
  void end_question(question& entry, const resolve_result& result) noexcept;
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
  bool is_closed_ = false;

  std::list<dns_channel> channels_;  // the last channel takes new questions
  std::map<question_key, question> questions_;
  intrusive_list<question> queue_;
  std::size_t awaited_in_flight_ = 0;                 // questions in flight that are not abandoned
  intrusive_list<waiting_lookup> completed_lookups_;  // lookups whose functions are to be called
  std::size_t pending_lookups_ = 0;

  std::optional<timer> delivery_;
};

}  // namespace gyre::net::detail

// SPDX-License-Identifier: Apache-2.0
// What a resolver consists of: its questions, the channels that carry them to name servers, and the
// lookups that wait for them.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/detail/dns_cache.hpp>
#include <gyre/net/detail/dns_channel.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/detail/file_version.hpp>
#include <gyre/net/detail/hosts_file.hpp>
#include <gyre/net/resolver.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
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

/// A query that a question has asked, or is to ask, for the name whose turn it is.
struct dns_query {
  question* asked_for = nullptr;
  record_type type = record_type::a;
  std::expected<std::vector<ip_address>, std::error_code> answer;  // nothing yet: empty
  std::vector<unsigned char> message = {};                         // of other records: as it came
};

/// A name as host_key() spells it, with a dot if it had one at its end, and which records: zero for
/// addresses.
using question_key = std::pair<std::string, std::uint16_t>;

/// A name that servers are asked for, or are to be asked for, and the lookups that wait for it.
///
///     queued ──(a place is free)──▶ in flight ──(answers, or failure)──▶ ended
///       └──(nobody waits)──▶ ended     └──(nobody waits)──▶ abandoned ──▶ ended
struct question : intrusive_list_node {
  name_engine* engine = nullptr;
  const question_key* key = nullptr;
  intrusive_list<waiting_lookup> waiting;
  dns_channel* channel = nullptr;  // null while it is queued

  std::vector<std::string> names = {};  // to be tried in turn
  std::size_t tried = 0;                // of these
  std::vector<dns_query> queries = {};  // for the last one tried
  std::size_t unanswered = 0;           // of these
  bool asking = false;                  // its queries are being begun
  std::error_code failure = {};         // of the names before
  steady_time first_known{};            // when one version's addresses were, if the timer is there
  std::optional<timer> resolution_delay = {};  // of those who wait for the other version's
};

/// Nothing of c-ares calls a user's function: its callbacks only note results, and deliver() tells
/// of them when c-ares has returned. So users may do what they like, destroying the resolver
/// included, and no exception meets a frame of C.
///
/// c-ares cannot end a single query. A question that nobody waits for any longer gives its place to
/// another at once, and stays in its channel, abandoned. When a channel has too many of these, new
/// questions go to a new one, and the old one is destroyed, with all its queries, once nobody waits
/// for any of them. So those who wait are not disturbed, and silence does not accumulate.
///
/// Shared with coroutines on other threads, which may find it closed. All members but the
/// destructor of a closed one, loop() and closed() belong to the loop's thread.
class name_engine final : public std::enable_shared_from_this<name_engine>,
                          private dns_channel::owner {
 public:
  name_engine(event_loop& loop, resolver_options options);
  name_engine(const name_engine&) = delete;
  name_engine& operator=(const name_engine&) = delete;
  virtual ~name_engine();

  event_loop& loop() const noexcept { return loop_; }
  /// Ends all lookups, and tells them so. Afterwards the engine holds nothing of the loop.
  void close() noexcept;
  bool closed() const noexcept { return closed_; }
  std::size_t pending() const noexcept { return pending_; }
  std::size_t abandoned() const noexcept;
  dns_cache& cache() noexcept { return cache_; }

  /// The result, if no server need be asked.
  std::optional<resolve_result> known(waiting_lookup& lookup, std::string_view host,
                                      const service& port);
  /// Asks for `host`, whose result is not known. Tells `lookup`, later.
  void ask(waiting_lookup& lookup, std::string_view host, const service& port);
  /// Tells `lookup` what is known, later.
  void tell_later(waiting_lookup& lookup, resolve_result result) noexcept;
  /// False if it was told already.
  bool cancel(waiting_lookup& lookup) noexcept;

 private:
  static void on_answer(void* query, int status, int timeouts, unsigned char* message,
                        int size) noexcept;

  void servers_processed() override;
  dns_channel& add_channel();
  dns_channel* channel_for_next() noexcept;
  void ask_servers() noexcept;
  void begin(question& next, dns_channel& by) noexcept;
  void ask_next_name(question& asked) noexcept;
  void advance(question& asked) noexcept;
  void take_answer(dns_query& query, int status, dns_message message) noexcept;
  void tell_first_family(question& asked) noexcept;
  bool is_preferred(const endpoint& address) const noexcept;
  void delay_first_family(question& asked, steady_time until);
  void end(question& ended, const resolve_result& result) noexcept;
  void end_abandoned() noexcept;
  resolve_result conclude(const question& asked);
  static void set_result(waiting_lookup& lookup, const question& asked,
                         const resolve_result& result) noexcept;
  void note(waiting_lookup& lookup) noexcept;
  void deliver();

  std::vector<dns_query> queries_for(question& asked) const;
  std::vector<std::string> names_for(const question_key& key) const;
  void reload_if_changed() noexcept;
  std::optional<std::vector<ip_address>> from_hosts(std::string_view key);
  std::optional<resolve_result> from_cache(waiting_lookup& lookup, const question_key& key);
  bool wanted(const ip_address& address) const noexcept;
  resolve_result choose(const std::vector<ip_address>& addresses, std::uint16_t port) const;

  event_loop& loop_;
  const resolver_options options_;
  hosts_file hosts_;
  file_version resolv_conf_;
  dns_cache cache_;
  bool closed_ = false;

  std::list<dns_channel> channels_;  // the last one takes new questions
  std::map<question_key, question> questions_;
  intrusive_list<question> queue_;       // those not in flight
  std::size_t wanted_in_flight_ = 0;     // those that somebody waits for
  intrusive_list<waiting_lookup> told_;  // that have their result
  std::size_t pending_ = 0;

  std::optional<timer> deliver_soon_;
};

}  // namespace gyre::net::detail

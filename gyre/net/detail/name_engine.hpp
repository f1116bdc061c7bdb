// SPDX-License-Identifier: Apache-2.0
// name_engine: a resolver's questions, their channels to name servers, and the waiting lookups.
// hosts_file, sort_destinations, dns_cache: its parts that need no server.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/resolver.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <compare>
#include <list>
#include <map>
#include <tuple>

// So that includers need no ares.h.
struct ares_channeldata;

namespace gyre::net::detail {

// /etc/hosts (hosts(5)). gyre reads it itself: c-ares before 1.19 reads no other than the system's,
// and the whole of it for each lookup.

/// One system call for each question.
class file_version {
 public:
  /// Whether the file at `path` is another than it was the last time, and remembers it; a file that
  /// is not there, or not a regular one, is none. True the first time, if there is one.
  bool update(const std::string& path) noexcept {
    struct stat found{};
    // Reading from something else, such as a pipe, could block.
    const bool readable = ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
    const version present = readable ? version(found.st_ino, found.st_dev, found.st_size,
                                               found.st_mtim.tv_sec, found.st_mtim.tv_nsec)
                                     : version();
    return std::exchange(last_, present) != present;
  }
  /// Whether there was one the last time.
  bool exists() const noexcept { return std::get<0>(last_) != 0; }

 private:
  using version = std::tuple<::ino_t, ::dev_t, ::off_t, ::time_t, long>;
  version last_;
};

/// The addresses of each host, by its name as host_key() spells it, in the file's order.
using hosts = std::map<std::string, std::vector<ip_address>, std::less<>>;

/// A name in the one spelling by which it is found: in small letters, without a dot at its end.
std::string host_key(std::string_view name);

/// Reads the text of a hosts file; lines that make no sense are left out.
hosts parse_hosts(std::string_view text);

/// The file at a path, read when it is first asked and whenever it has changed since. One system
/// call each time it is asked. A file that cannot be read has no hosts.
class hosts_file {
 public:
  explicit hosts_file(std::string path) : path_(std::move(path)) {}
  /// Null if there is no such host. Valid until it is asked again. Throws std::bad_alloc.
  const std::vector<ip_address>* find(std::string_view key);

 private:
  const std::string path_;
  file_version read_;
  hosts hosts_;
};

// Destination address selection (RFC 6724, Thaler, Draves, Matsumoto and Chown, 2012): which of a
// host's addresses to connect to first.

/// Where a destination stands among others: the smaller, the sooner. The members are the RFC's
/// rules of section 6, in their order; its rules 3, 4 and 7 would need to know more of the
/// interfaces than a program is told.
struct destination_rank {
  bool unreachable;   // 1: avoid unusable destinations
  bool other_scope;   // 2: prefer matching scope
  bool other_label;   // 5: prefer matching label
  int precedence;     // 6: prefer higher precedence; negated
  int scope;          // 8: prefer smaller scope
  int matching_bits;  // 9: use longest matching prefix, of IPv6; negated
  friend auto operator<=>(const destination_rank&, const destination_rank&) = default;
};

/// `source` is the address from which the machine would connect; none if it could not.
destination_rank rank_of(const ip_address& destination, const std::optional<ip_address>& source);

/// The address from which the machine would send to `destination`; four system calls, no packet.
std::optional<ip_address> source_for(const ip_address& destination);

/// Sorts them, the best first; those that are equally good keep their order, and those behind the
/// 64th their places. Four system calls for each address, unless there is one.
void sort_destinations(std::vector<ip_address>& addresses);

/// Caches answers of name servers for as long as they allow (RFC 1035 and 2308). Belongs to one
/// thread. Finding and keeping cost O(log entries); keeping allocates.
class dns_cache {
 public:
  /// `status` is what c-ares said with it. The message is empty if there is no such name or record.
  struct answer {
    int status;
    dns_message message;
  };

  explicit dns_cache(const dns_cache_options& options) noexcept : options_(options) {}
  dns_cache(const dns_cache&) = delete;
  dns_cache& operator=(const dns_cache&) = delete;
  ~dns_cache() { clear(); }

  /// The answer for `name`, as host_key() spells it, if still valid. For use until the next change.
  const answer* find(std::string_view name, record_type type, steady_time now);
  /// Keeps it, if it may and can be kept; those not used for longest make room.
  void keep(std::string_view name, record_type type, int status, dns_message message,
            steady_time now) noexcept;
  void clear() noexcept;
  /// Its hits and misses are the owner's to count.
  const dns_cache_metrics& metrics() const noexcept { return metrics_; }
  void count_hit() noexcept { ++metrics_.hits; }
  void count_miss() noexcept { ++metrics_.misses; }

 private:
  using key = std::pair<std::string, record_type>;
  using key_view = std::pair<std::string_view, record_type>;
  struct entry : intrusive_list_node {
    const key* name = nullptr;
    std::vector<unsigned char> bytes;
    answer kept{};
    steady_time expiry{};
  };
  struct by_key {
    using is_transparent = void;
    static key_view view(const key& each) noexcept { return {each.first, each.second}; }
    static key_view view(key_view each) noexcept { return each; }
    bool operator()(const auto& one, const auto& other) const noexcept {
      return view(one) < view(other);
    }
  };

  static std::size_t cost_of(std::string_view name, std::size_t message_size) noexcept;
  void drop(entry& dropped) noexcept;

  const dns_cache_options options_;
  std::map<key, entry, by_key> entries_;
  intrusive_list<entry> by_use_;  // the last one was used last
  dns_cache_metrics metrics_;
};

/// Where names that are not fully qualified are looked for.
struct search_list {
  std::vector<std::string> domains;
  int ndots = 1;  // a name with as many dots is tried as it is first

  /// The names to ask for in turn for `host`, which is not empty; as it is, if it ends with a dot.
  std::vector<std::string> names_for(std::string_view host) const;
};

/// The servers that the lines "nameserver ADDRESS" of a resolv.conf name, also with a scope
/// ("fe80::1%eth0"), which c-ares 1.18 passes over, or a port ("[::1]:53"). Others are passed over.
std::vector<endpoint> parse_name_servers(std::string_view text);

/// A channel of c-ares on a loop, which carries queries to name servers and answers back.
///
/// Thread-safety: none; belongs to the loop's thread.
class dns_channel {
 public:
  /// There is a message with ARES_SUCCESS, and with negative answers.
  /// Called by c-ares: may begin queries, and not cancel or destroy anything of the channel.
  using callback = void (*)(void* context, int status, int timeouts, unsigned char* message,
                            int size);

  /// Throws std::system_error, std::bad_alloc.
  dns_channel(name_engine& owner, const resolver_options& options);
  dns_channel(const dns_channel&) = delete;
  dns_channel& operator=(const dns_channel&) = delete;
  /// Ends all queries.
  ~dns_channel();

  /// Calls `answered` exactly once, maybe before it returns.
  void query(const std::string& name, record_type type, callback answered, void* context) noexcept;
  /// After query(), to be called again in time.
  void wait_for_servers() noexcept;
  /// Ends all queries: c-ares cannot end a single one. Not from a callback.
  void cancel_all() noexcept;
  const search_list& search() const noexcept { return search_; }

  // Counted by the owner.
  std::size_t in_flight = 0;
  std::size_t awaited = 0;  // of these lookups wait for

 private:
  static void on_socket_state(void* self, int fd, int readable, int writable) noexcept;

  void open(const resolver_options& options);
  void read_search_list();
  void process(int readable, int writable);

  name_engine& owner_;
  ares_channeldata* channel_ = nullptr;
  std::map<int, fd_watch> watches_;  // the sockets of c-ares
  timer query_timeout_;
  search_list search_;
  std::vector<endpoint> servers_;  // empty: those of c-ares
};

struct question;

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
    std::vector<ip_address> found;
    for (const dns_query& each : queries) {
      if (each.answer) found.insert(found.end(), each.answer->begin(), each.answer->end());
    }
    sort_destinations(found);
    return found;
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
  void end(question& ended, const resolve_result& result) noexcept;
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

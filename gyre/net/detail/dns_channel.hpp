// SPDX-License-Identifier: Apache-2.0
// dns_channel: sends queries to name servers through c-ares.
#pragma once

#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolver_options.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Declared here so that users of this header do not need ares.h.
struct ares_channeldata;

namespace gyre::net::detail {

class name_engine;

/// The domains in which names are searched that are not fully qualified.
struct search_list {
  std::vector<std::string> domains;
  int ndots = 1;  // a name with at least this many dots is first tried without a search domain

  /// Returns the names to query in turn for `host`, which must not be empty; only `host` itself if
  /// it ends with a dot.
  std::vector<std::string> names_for(std::string_view host) const;
};

/// Returns the servers in the lines "nameserver ADDRESS" of a resolv.conf. An address may have a
/// scope ("fe80::1%eth0"), which c-ares 1.18 does not support, or a port ("[::1]:53"). Other lines
/// are ignored.
std::vector<endpoint> parse_name_servers(std::string_view text);

/// A channel of c-ares on a loop.
///
/// Thread-safety: none; belongs to the loop's thread.
class dns_channel {
 public:
  /// Called by c-ares with the result of a query. `message` is set if `status` is ARES_SUCCESS, and
  /// for negative answers. The callback may begin queries, but must not cancel queries or destroy
  /// the channel.
  using callback = void (*)(void* context, int status, int timeouts, unsigned char* message,
                            int size);

  /// Opens a channel. Throws std::system_error, std::bad_alloc.
  dns_channel(name_engine& owner, const resolver_options& options);
  dns_channel(const dns_channel&) = delete;
  dns_channel& operator=(const dns_channel&) = delete;
  /// Ends all queries.
  ~dns_channel();

  /// Begins a query. `handler` is called exactly once, possibly before query() returns.
  void query(const std::string& name, record_type type, callback handler, void* context) noexcept;
  /// Starts the timer for the next timeout of c-ares. Called after query().
  void wait_for_servers() noexcept;
  /// Ends all queries, because c-ares cannot end a single one. Must not be called from a callback.
  void cancel_all() noexcept;
  const search_list& search() const noexcept { return search_; }

  // The owner of the channel counts the queries in flight here.
  std::size_t in_flight = 0;
  std::size_t awaited_queries = 0;  // queries for which lookups wait

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
  std::vector<endpoint> servers_;  // if empty, c-ares uses its own list
};

}  // namespace gyre::net::detail

// SPDX-License-Identifier: Apache-2.0
// dns_channel: carries queries to name servers, by c-ares.
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

// Declared here so that users of this header need no ares.h.
struct ares_channeldata;

namespace gyre::net::detail {

class name_engine;

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

  /// Calls `handler` exactly once, maybe before it returns.
  void query(const std::string& name, record_type type, callback handler, void* context) noexcept;
  /// After query(), to be called again in time.
  void wait_for_servers() noexcept;
  /// Ends all queries: c-ares cannot end a single one. Not from a callback.
  void cancel_all() noexcept;
  const search_list& search() const noexcept { return search_; }

  // The owner of the channel counts its queries.
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

}  // namespace gyre::net::detail

// SPDX-License-Identifier: Apache-2.0
// What a resolver consists of: its questions, the channel of c-ares that carries them to servers,
// and what the loop does for that.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/detail/hosts_file.hpp>
#include <gyre/net/resolver.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

// ares.h is no business of who includes this.
struct ares_channeldata;
struct ares_addrinfo;

namespace gyre::net::detail {

/// A name that servers are asked for, or are to be asked for, and who waits for it.
struct question : intrusive_list_node {
  name_engine* engine = nullptr;
  const std::string* name = nullptr;
  intrusive_list<waiting_lookup> waiting;
  bool in_flight = false;
};

/// Nothing of c-ares calls a user's function: its callbacks only note results, and deliver() tells
/// of them when c-ares has returned. So users may do what they like, destroying the resolver
/// included, and no exception meets a frame of C.
///
/// Shared with coroutines on other threads, which may find it closed. All members but the
/// destructor of a closed one, loop() and closed() belong to the loop's thread.
class name_engine : public std::enable_shared_from_this<name_engine> {
 public:
  name_engine(event_loop& loop, resolver_options options);
  name_engine(const name_engine&) = delete;
  name_engine& operator=(const name_engine&) = delete;
  ~name_engine();

  event_loop& loop() const noexcept { return loop_; }
  /// Ends all lookups, and tells them so. Afterwards the engine holds nothing of the loop.
  void close() noexcept;
  bool closed() const noexcept { return channel_ == nullptr; }
  std::size_t pending() const noexcept { return pending_; }

  /// The result, if no server need be asked.
  std::optional<resolve_result> known(std::string_view host, const service& port);
  /// Asks for `host`, whose result is not known. Tells `lookup`, later.
  void ask(waiting_lookup& lookup, std::string_view host, const service& port);
  /// Tells `lookup` what is known, later.
  void tell_later(waiting_lookup& lookup, resolve_result result) noexcept;
  /// False if it was told already.
  bool cancel(waiting_lookup& lookup) noexcept;

 private:
  static void on_socket_state(void* self, int fd, int readable, int writable) noexcept;
  static void on_answer(void* asked, int status, int timeouts, ares_addrinfo* answer) noexcept;

  void open_channel(const resolver_options& options);
  void watch(int fd, readiness interest) noexcept;
  void process(int readable, int writable);
  void ask_servers() noexcept;
  void wait_for_servers() noexcept;
  resolve_result conclude(const question& asked, int status, const ares_addrinfo* answer);
  void end(question& asked, const resolve_result& result) noexcept;
  void note(waiting_lookup& lookup) noexcept;
  void deliver();
  std::optional<std::vector<ip_address>> from_hosts(std::string_view key);
  bool wanted(const ip_address& address) const noexcept;
  resolve_result choose(const std::vector<ip_address>& addresses, std::uint16_t port) const;

  event_loop& loop_;
  const lookup_order order_;
  const address_choice addresses_;
  const std::size_t max_in_flight_;
  hosts_file hosts_;
  ares_channeldata* channel_ = nullptr;
  std::map<int, fd_watch> watches_;  // the sockets of c-ares

  std::map<std::string, question, std::less<>> questions_;
  intrusive_list<question> queue_;  // those not in flight
  std::size_t in_flight_ = 0;
  std::size_t wanted_in_flight_ = 0;     // of these somebody waits for
  intrusive_list<waiting_lookup> told_;  // that have their result
  std::size_t pending_ = 0;

  std::optional<timer> servers_late_;
  std::optional<timer> deliver_soon_;
};

}  // namespace gyre::net::detail
